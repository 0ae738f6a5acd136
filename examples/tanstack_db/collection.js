// A collection of TanStack DB that follows a stream of reactdb.web, and writes through routes of the program.
//
//   const todos = createCollection(reactdbCollection({ live: "/live", url: "/todos" }));

/**
 * live:   the URL of a route with `reactdb.web.sse(selection, request)`
 * url:    the URL for writes: POST url, PUT url/key, DELETE url/key. Each answers `{"changed": true}`, or false
 * getKey: the key of a document
 */
export function reactdbCollection({ live, url, getKey = document => document.id, ...config }) {
  const waiting = []; // own writes that have not come back yet: {key, resolve}

  function sync({ begin, write, commit, markReady, markError, truncate }) {
    const source = new EventSource(live, { withCredentials: true });
    let isOpen = true, isReady = false; // the first documents, and those after a reset, are one transaction
    begin();

    source.onmessage = event => {
      if (!isOpen) begin();
      const changes = JSON.parse(event.data);
      for (const { old_val: before, new_val: now } of changes) {
        if (!now) write({ type: "delete", key: getKey(before) });
        else write({ type: before ? "update" : "insert", value: now });
      }
      if (!isOpen) commit();
      const keys = new Set(changes.map(({ old_val, new_val }) => getKey(new_val ?? old_val)));
      for (const one of waiting.filter(({ key }) => keys.has(key))) one.resolve();
    };
    source.addEventListener("reset", () => {
      if (!isOpen) begin();
      truncate();
      isOpen = true;
    });
    source.addEventListener("ready", () => {
      if (isOpen) commit();
      [isOpen, isReady] = [false, true];
      markReady();
      for (const one of [...waiting]) if (one.isSaved) one.resolve(); // a reset has brought them
    });
    source.addEventListener("error", event => {
      // With data it is an event of the stream, and the feed has ended. A stream that breaks comes back by itself.
      const isOver = event.data !== undefined || source.readyState === EventSource.CLOSED;
      if (isOver) for (const one of [...waiting]) one.resolve();
      if (isOver && !isReady) markError(new Error(event.data ?? `${live} cannot be read`));
    });
    return () => source.close();
  }

  // The optimistic document is shown until the handler ends: so it ends when the written one has come back.
  async function save(method, key, address, body) {
    const one = { key, isSaved: false };
    const hasComeBack = new Promise(resolve => (one.resolve = resolve));
    waiting.push(one);
    try {
      const headers = { "Content-Type": "application/json" };
      const answer = await fetch(address, { method, headers, credentials: "include", body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`${method} ${address}: ${answer.status}`);
      one.isSaved = true;
      if ((await answer.json()).changed) await hasComeBack;
    } finally {
      waiting.splice(waiting.indexOf(one), 1);
    }
  }
  const each = make => ({ transaction }) => Promise.all(transaction.mutations.map(make));
  const at = key => `${url}/${encodeURIComponent(key)}`;
  return {
    ...config,
    getKey,
    sync: { sync, rowUpdateMode: "full" },
    onInsert: each(({ key, modified }) => save("POST", key, url, modified)),
    onUpdate: each(({ key, changes }) => save("PUT", key, at(key), changes)),
    onDelete: each(({ key }) => save("DELETE", key, at(key))),
  };
}
