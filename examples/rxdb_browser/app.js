// A to-do list in RxDB, in the browser's own storage, replicated with a file of reactdb in both directions.
import { createRxDatabase } from "rxdb";
import { replicateCouchDB } from "rxdb/plugins/replication-couchdb";
import { getRxStorageDexie } from "rxdb/plugins/storage-dexie";

const server = new URLSearchParams(location.search).get("server") ?? "http://127.0.0.1:5984";

const db = await createRxDatabase({ name: "todo", storage: getRxStorageDexie() });
const { todos } = await db.addCollections({
  todos: {
    schema: {
      version: 0,
      primaryKey: "id", // the `_id` of the table
      type: "object",
      properties: { id: { type: "string", maxLength: 100 }, text: { type: "string" }, done: { type: "boolean" } },
      required: ["id", "text", "done"],
    },
  },
});
const replication = replicateCouchDB({
  replicationIdentifier: "todos of " + server,
  collection: todos,
  url: server + "/todos/",
  live: true,
  retryTime: 1000,
  pull: { batchSize: 100 },
  push: { batchSize: 100 },
});

const list = document.getElementById("list"), text = document.getElementById("text");
todos.find({ sort: [{ text: "asc" }] }).$.subscribe(found => list.replaceChildren(...found.map(todo => {
  const item = document.createElement("li");
  item.textContent = (todo.done ? "✓ " : "") + todo.text;
  item.onclick = () => todo.incrementalPatch({ done: !todo.done });
  item.oncontextmenu = event => { event.preventDefault(); todo.incrementalRemove(); };
  return item;
})));
document.getElementById("add").onsubmit = event => {
  event.preventDefault();
  todos.insert({ id: crypto.randomUUID(), text: text.value, done: false });
  text.value = "";
};
Object.assign(window, { todos, replication }); // for the browser's console
