// One workload of one database in this process, measured by itself:
//
//     node measure.mjs <rxdb|tanstack> <task.json>
//
// The task says what to do (`kind`), to how many documents, and has the documents, keys and scores, so that everybody does
// the same. What comes out is one line of JSON: microseconds for each operation, CPU (user and system time of the whole
// process: the collector's and the compiler's threads too) and wall.
//
// Rule of this file: a database is an object with the same few functions; what it cannot do, it does not have. Workloads
// time nothing but the work, and look afterwards whether it was done.

import { readFileSync } from "node:fs";
import { rxdb } from "./rxdb.mjs";
import { tanstack } from "./tanstack.mjs";

const DEADLINE_MS = 60_000;
const turn = () => new Promise((resolve) => setImmediate(resolve));

class Stopwatch {
  cpu_us = 0;
  wall_us = 0;

  async during(work) {
    const cpu = process.cpuUsage();
    const began = process.hrtime.bigint();
    const found = await work();
    const { user, system } = process.cpuUsage(cpu);
    this.wall_us += Number(process.hrtime.bigint() - began) / 1_000;
    this.cpu_us += user + system;
    return found;
  }

  per(operations) {
    return { cpu: this.cpu_us / operations, wall: this.wall_us / operations };
  }
}

function expect(expected, actual) {
  if (expected !== actual) throw new Error(`the workload gave ${actual} instead of ${expected}`);
}

async function until(is_so) {
  const began = Date.now();
  while (!is_so()) {
    if (Date.now() - began > DEADLINE_MS) throw new Error("nobody was told within a minute");
    await turn();
  }
}

const sum = (documents) => documents.reduce((total, document) => total + document.score, 0);

// Each write is followed by a turn of the event loop, or databases that tell later would never tell while the writer writes.
async function scoreEach(store, scores) {
  for (const [key, score] of scores) {
    await store.setScore(key, score);
    await turn();
  }
}

const kinds = {
  async insertAll(store, task) {
    const watch = new Stopwatch();
    await watch.during(() => store.insertAll(task.documents));
    expect(sum(task.documents), await store.scan());
    return watch.per(task.documents.length);
  },

  async insertEach(store, task) {
    const watch = new Stopwatch();
    let heard = 0;
    if (task.is_heard) store.hearTable(() => (heard += 1));
    await store.insert(task.documents[0]);
    await watch.during(async () => {
      for (const document of task.documents.slice(1)) await store.insert(document);
      if (task.is_heard) await until(() => heard >= task.documents.length);
    });
    expect(sum(task.documents), await store.scan());
    return watch.per(task.documents.length - 1);
  },

  async addEach(store, task) {
    await store.insertAll(task.documents);
    const watch = new Stopwatch();
    await watch.during(async () => {
      for (const key of task.keys) await store.add(key);
    });
    expect(sum(task.documents) + task.keys.length, await store.scan());
    return watch.per(task.keys.length);
  },

  async addAll(store, task) {
    await store.insertAll(task.documents);
    const watch = new Stopwatch();
    await watch.during(async () => {
      for (let start = 0; start < task.keys.length; start += task.each) {
        await store.addAll(task.keys.slice(start, start + task.each));
      }
    });
    expect(sum(task.documents) + task.keys.length, await store.scan());
    return watch.per(task.keys.length);
  },

  async getEach(store, task) {
    await store.insertAll(task.documents);
    const scores = new Map(task.documents.map((document) => [document.id, document.score]));
    const watch = new Stopwatch();
    let total = 0;
    await watch.during(async () => {
      for (const key of task.keys) total += await store.getScore(key);
    });
    expect(task.keys.reduce((sum, key) => sum + scores.get(key), 0), total);
    return watch.per(task.keys.length);
  },

  async latency(store, task) {
    await store.insertAll(task.documents);
    const waited = [];
    let began = 0n;
    store.hearTable(() => {
      if (began) waited.push(Number(process.hrtime.bigint() - began) / 1_000);
      began = 0n;
    });
    for (const [key, score] of task.scores) {
      began = process.hrtime.bigint();
      await store.setScore(key, score);
      await until(() => began === 0n);
    }
    waited.sort((one, other) => one - other);
    return { p50: waited[waited.length >> 1], p99: waited[Math.floor(waited.length * 0.99)] };
  },

  async fanOut(store, task) {
    await store.insertAll(task.documents);
    let heard = 0;
    for (let number = 0; number < task.listeners; number += 1) store.hearTable(() => (heard += 1));
    await turn();
    await scoreEach(store, task.scores.slice(0, 1));
    await until(() => heard >= task.listeners);
    const watch = new Stopwatch();
    await watch.during(async () => {
      await scoreEach(store, task.scores.slice(1));
      await until(() => heard >= task.listeners * task.scores.length);
    });
    return watch.per(task.scores.length - 1);
  },

  // Listeners to one key or one rating each; the last event of the last write has to come, whatever came before it.
  async silent(store, task) {
    await store.insertAll(task.documents);
    const last = new Map();
    const opening = new Stopwatch();
    await opening.during(async () => {
      for (const [what, value] of task.listens) {
        store[what](value, (key, score) => last.set(key, score));
      }
      await turn();
    });
    const [key, score] = task.scores.at(-1);
    const watch = new Stopwatch();
    await scoreEach(store, task.scores.slice(0, 20));
    await watch.during(async () => {
      await scoreEach(store, task.scores.slice(20));
      if (task.listens.length) await until(() => last.get(key) === score);
    });
    return { ...watch.per(task.scores.length - 20), subscribe: opening.cpu_us / (task.listens.length || 1) };
  },

  async liveTop(store, task) {
    await store.insertAll(task.documents);
    const half = task.scores.length >> 1;
    const without = new Stopwatch();
    await scoreEach(store, task.scores.slice(0, 20));
    await without.during(() => scoreEach(store, task.scores.slice(20, half)));
    const now = await store.hearTop(task.window);
    await until(() => now().length === task.window);
    const watch = new Stopwatch();
    await watch.during(() => scoreEach(store, task.scores.slice(half)));
    const scores = new Map(task.documents.map((document) => [document.id, document.score]));
    for (const [key, score] of task.scores) scores.set(key, score);
    const best = [...scores.values()].sort((one, other) => other - one).slice(0, task.window);
    await until(() => now().join() === best.join());
    const added = watch.cpu_us / (task.scores.length - half) - without.cpu_us / (half - 20);
    return { ...watch.per(task.scores.length - half), added: Math.max(0.001, added) };
  },

  // Nobody here has a squash interval by itself: a listener keeps the first and the last state of each document.
  async squash(store, task) {
    await store.insertAll(task.documents);
    const net = new Map();
    store.hearNet(net);
    const watch = new Stopwatch();
    await watch.during(async () => {
      for (const scores of task.transactions) await store.setScores(scores);
    });
    const changed = new Set(task.transactions.flat().map(([key]) => key));
    await until(() => net.size === changed.size);
    return watch.per(task.transactions.flat().length);
  },

  async present(store, task) {
    await store.insertAll(task.documents);
    const watch = new Stopwatch();
    const began = process.hrtime.bigint();
    let total = 0;
    let heard = 0;
    let first = null;
    await watch.during(async () => {
      store.hearPresent((score) => {
        first ??= Number(process.hrtime.bigint() - began) / 1_000;
        heard += 1;
        total += score;
      });
      await until(() => heard === task.documents.length);
    });
    expect(sum(task.documents), total);
    return { ...watch.per(heard), first };
  },
};

const [name, file] = process.argv.slice(2);
const task = JSON.parse(readFileSync(file, "utf8"));
const store = await { rxdb, tanstack }[name]();
const figures = await kinds[task.kind](store, task);
// Not console.log and exit: what is written to a pipe may be cut off by leaving.
process.stdout.write(JSON.stringify(figures) + "\n", () => process.exit(0));
