// RxDB on its memory storage: the quickest that is free of charge and runs in Node. Nothing is kept when the process ends, and
// nothing is logged; the free SQLite storage is a trial of at most 500 documents, the others need a browser or a server.
//
// As its manual has it: `multiInstance: false`, no validation of schemas, no dev-mode. There are no transactions: `All` is a bulk
// write, which is one event.

import { createRxDatabase } from "rxdb";
import { getRxStorageMemory } from "rxdb/plugins/storage-memory";

const text = { type: "string" };
const schema = {
  version: 0,
  primaryKey: "id",
  type: "object",
  properties: {
    id: { type: "string", maxLength: 16 },
    name: text,
    score: { type: "integer", minimum: 0, maximum: 2_000_000, multipleOf: 1 },
    rating: { type: "number" },
    active: { type: "boolean" },
    country: text,
    city: text,
    words: text,
  },
  required: ["id", "score", "rating"],
  indexes: ["score"],
};

export async function rxdb() {
  const database = await createRxDatabase({
    name: "benchmarks",
    storage: getRxStorageMemory(),
    multiInstance: false,
    eventReduce: true,
  });
  const { players } = await database.addCollections({ players: { schema } });
  const found = (key) => players.findOne(key).exec();

  async function modifyAll(keys, modify) {
    const documents = await players.findByIds([...new Set(keys)]).exec();
    const states = new Map([...documents].map(([key, document]) => [key, document.toMutableJSON()]));
    keys.forEach((key, place) => modify(states.get(key), place));
    const { error } = await players.bulkUpsert([...states.values()]);
    if (error.length) throw new Error("RxDB refused a bulk write");
  }

  return {
    async insertAll(documents) {
      const { error } = await players.bulkInsert(documents);
      if (error.length) throw new Error("RxDB refused a bulk insert");
    },
    insert: (document) => players.insert(document),
    async add(key) {
      await (await found(key)).incrementalModify((document) => {
        document.score += 1;
        return document;
      });
    },
    addAll: (keys) => modifyAll(keys, (document) => (document.score += 1)),
    setScore: async (key, score) => (await found(key)).incrementalPatch({ score }),
    setScores: (scores) =>
      modifyAll(
        scores.map(([key]) => key),
        (document, place) => (document.score = scores[place][1]),
      ),
    getScore: async (key) => (await found(key)).score,
    async scan() {
      return (await players.find().exec()).reduce((total, document) => total + document.score, 0);
    },
    hearTable: (hear) => players.$.subscribe(hear),
    hearKey: (key, hear) =>
      players.findOne(key).$.subscribe((document) => document && hear(key, document.score)),
    hearRating: (rating, hear) =>
      players
        .find({ selector: { rating } })
        .$.subscribe((documents) => documents.forEach((document) => hear(document.id, document.score))),
    async hearTop(window) {
      let now = [];
      players
        .find({ selector: {}, sort: [{ score: "desc" }], limit: window })
        .$.subscribe((documents) => (now = documents.map((document) => document.score)));
      return () => now;
    },
    hearNet: (net) =>
      players.$.subscribe(({ documentId, documentData, previousDocumentData }) => {
        const first = net.get(documentId);
        net.set(documentId, [first === undefined ? previousDocumentData : first[0], documentData]);
      }),
    hearPresent(hear) {
      players.find().$.subscribe((documents) => documents.forEach((document) => hear(document.score)));
    },
  };
}
