// Questions to the server, and its stream of changes.

const HEADERS = { Accept: "application/json", "X-Reactdb-Inspector": "1" };
// The server sends a heartbeat each 10 seconds.
const SILENCE_MS = 25000;

export class ServerError extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

async function answered(response) {
  const text = await response.text();
  let body = null;
  try { body = JSON.parse(text); } catch { /* a proxy's page, or an empty answer */ }
  if (!response.ok || body === null) {
    throw new ServerError(response.status, (body && body.error) || text.slice(0, 200) || `The server answered ${response.status}.`);
  }
  return body;
}

/** The answer to a GET. Parameters that are empty are left out. */
export async function ask(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) query.set(name, value === true ? "1" : value);
  }
  const tail = query.toString();
  return answered(await fetch(`./${path}${tail ? "?" + tail : ""}`, { headers: HEADERS, signal, cache: "no-store" }));
}

/** The answer to a POST. `raw` are members whose JSON text is sent as it is, so that no digit is lost. */
export async function send(path, body = {}, raw = {}) {
  const members = Object.entries(body).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  for (const [name, text] of Object.entries(raw)) members.push(`${JSON.stringify(name)}:${text}`);
  return answered(await fetch(`./${path}`, {
    method: "POST",
    headers: { ...HEADERS, "Content-Type": "application/json" },
    body: `{${members.join(",")}}`,
  }));
}

/** The stream of changes. It comes back by itself after the last seq that it had. */
export class ChangeStream {
  /**
   * @param after The seq after which it begins, or null for now.
   * @param onMessage Called with each message.
   * @param onState Called with "live", "lost" or "refused", and an error.
   */
  constructor(after, onMessage, onState) {
    this.after = after;
    this.onMessage = onMessage;
    this.onState = onState;
    this.attempt = 0;
    this.run();
  }

  async run() {
    for (;;) {
      let error = null;
      try {
        await this.read();
      } catch (raised) {
        error = raised;
      }
      const isRefused = error instanceof ServerError && (error.status === 401 || error.status === 403);
      this.onState(isRefused ? "refused" : "lost", error);
      const wait = Math.min(2000, 250 * 2 ** this.attempt);
      this.attempt += 1;
      await new Promise((resolve) => setTimeout(resolve, isRefused ? 5000 : wait));
    }
  }

  async read() {
    const stop = new AbortController();
    let alarm = setTimeout(() => stop.abort(), SILENCE_MS);
    try {
      const query = this.after === null ? "" : `?after=${this.after}`;
      const response = await fetch(`./api/stream${query}`, { headers: HEADERS, signal: stop.signal, cache: "no-store" });
      if (!response.ok) await answered(response);
      this.attempt = 0;
      this.onState("live", null);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(alarm);
        alarm = setTimeout(() => stop.abort(), SILENCE_MS);
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          if (!line.trim()) continue;
          const message = JSON.parse(line);
          if (typeof message.seq === "number") this.after = message.seq;
          this.onMessage(message);
        }
      }
    } finally {
      clearTimeout(alarm);
      stop.abort();
    }
  }
}
