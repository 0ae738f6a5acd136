// Seven live collections of RxDB in one page: short polls, since a browser opens six connections to an address.
import { createRxDatabase } from "rxdb";
import { replicateCouchDB } from "rxdb/plugins/replication-couchdb";
import { getRxStorageMemory } from "rxdb/plugins/storage-memory";

const server = new URLSearchParams(location.search).get("server");
const db = await createRxDatabase({ name: "seven", storage: getRxStorageMemory() });
const schema = { version: 0, primaryKey: "id", type: "object", properties: { id: { type: "string", maxLength: 100 } } };
const names = [..."abcdefg"];
window.collections = await db.addCollections(Object.fromEntries(names.map(name => [name, { schema }])));
for (const name of names) {
  replicateCouchDB({
    replicationIdentifier: name,
    collection: collections[name],
    url: `${server}/${name}/`,
    fetch: (url, options) => fetch(url.replace("heartbeat=60000", "timeout=200"), options),
    live: true,
    retryTime: 1000,
    pull: { batchSize: 100 },
    push: { batchSize: 100 },
  });
}
window.isReady = true;
