// TanStack DB with a local-only collection: in memory, of this process, kept nowhere, logged nowhere. It is made to hold what a
// server holds, so every write is first optimistic and then confirmed: here at once.
//
// Live queries are `subscribeChanges` with a condition, and `createLiveQueryCollection` for what has an order. A write is done when
// its transaction is persisted.

import {
  BasicIndex,
  createCollection,
  createLiveQueryCollection,
  createTransaction,
  eq,
  localOnlyCollectionOptions,
} from "@tanstack/db";

export async function tanstack() {
  const players = createCollection(
    localOnlyCollectionOptions({
      id: "players",
      getKey: (document) => document.id,
      autoIndex: "eager",
      defaultIndexType: BasicIndex,
    }),
  );
  await players.preload();
  const kept = [];

  async function inOne(work) {
    const transaction = createTransaction({
      mutationFn: async ({ transaction }) => players.utils.acceptMutations(transaction),
    });
    transaction.mutate(work);
    await transaction.isPersisted.promise;
  }

  const change = (key, modify) => players.update(key, modify);
  const done = async (transaction) => void (await transaction.isPersisted.promise);
  // Ends with the process: nobody unsubscribes here, but what is not held may be collected.
  const hear = (listen, options) => kept.push(players.subscribeChanges(listen, options));

  return {
    insertAll: (documents) => done(players.insert(documents)),
    insert: (document) => done(players.insert(document)),
    add: (key) => done(change(key, (draft) => void (draft.score += 1))),
    addAll: (keys) =>
      inOne(() => keys.forEach((key) => change(key, (draft) => void (draft.score += 1)))),
    setScore: (key, score) => done(change(key, (draft) => void (draft.score = score))),
    setScores: (scores) =>
      inOne(() => scores.forEach(([key, score]) => change(key, (draft) => void (draft.score = score)))),
    getScore: (key) => players.get(key).score,
    scan: async () => players.toArray.reduce((total, document) => total + document.score, 0),
    hearTable: (listen) => hear((changes) => changes.forEach(listen)),
    hearKey: (key, listen) =>
      hear((changes) => changes.forEach(({ value }) => listen(key, value.score)), {
        where: (player) => eq(player.id, key),
      }),
    hearRating: (rating, listen) =>
      hear((changes) => changes.forEach(({ value }) => listen(value.id, value.score)), {
        where: (player) => eq(player.rating, rating),
      }),
    async hearTop(window) {
      const top = createLiveQueryCollection((query) =>
        query
          .from({ player: players })
          .orderBy(({ player }) => player.score, "desc")
          .limit(window),
      );
      await top.preload();
      kept.push(top.subscribeChanges(() => {}));
      return () => top.toArray.map((document) => document.score);
    },
    hearNet: (net) =>
      hear((changes) =>
        changes.forEach(({ key, value, previousValue }) => {
          const first = net.get(key);
          net.set(key, [first === undefined ? previousValue : first[0], value]);
        }),
      ),
    hearPresent: (listen) =>
      hear((changes) => changes.forEach(({ value }) => listen(value.score)), { includeInitialState: true }),
  };
}
