// Feeds, consumers and storage: figures of the whole file, asked each second while they are shown.

import { ask, ServerError } from "./api.js";
import { make, setText } from "./dom.js";
import { bytes, count, moment, plural } from "./format.js";
import { Grid } from "./grid.js";

const POLL_MS = 1000;

/** A view with a title, tiles of figures and grids, each of a list of plain rows. */
class FiguresView {
  constructor(app, host, title) {
    this.app = app;
    this.summary = make("span", { class: "summary" });
    this.tiles = make("dl", { class: "tiles", hidden: true });
    this.body = make("div", { class: "figures" });
    this.problemText = make("p", { class: "field-problem", hidden: true });
    this.root = make("section", { class: "view" },
      make("div", { class: "toolbar" }, make("h1", { text: title, tabindex: "-1" }), this.summary),
      this.problemText, this.tiles, this.body);
    host.replaceChildren(this.root);
    this.grids = [];
  }

  addList(title, columns, empty) {
    const list = { rows: [], shown: null };
    list.heading = title ? make("h3", { text: title }) : null;
    list.empty = make("p", { class: "empty", text: empty, hidden: true });
    const holder = make("div", { class: "grid-holder" }, list.empty);
    list.block = make("div", { class: "list" }, list.heading, holder);
    this.body.append(list.block);
    list.grid = new Grid(holder, {
      label: title || this.root.querySelector("h1").textContent,
      row: (index) => list.rows[index],
      text: (row, column) => row.cells[column.id] ?? "",
      type: (row, column) => (row.warn?.[column.id] ? "warn" : column.class ?? ""),
      onOpen: (row) => { this.opened = { list, key: row.key }; this.showOpened(row); },
      rowClass: () => "",
    });
    list.columns = columns;
    list.title = title || this.root.querySelector("h1").textContent;
    list.grid.setColumns(columns);
    this.grids.push(list.grid);
    list.put = (rows) => {
      list.rows = rows;
      list.grid.setTotal(rows.length);
      list.grid.draw();
      list.empty.hidden = rows.length > 0;
      const opened = this.opened?.list === list && rows.find((row) => row.key === this.opened.key);
      if (opened) this.showOpened(opened);
      // As high as its rows, so that lists stand one below the other.
      list.block.style.setProperty("--rows", String(Math.max(2, rows.length)));
    };
    this.grids.at(-1).flashes = true;
    return list;
  }

  /** The row in the panel, kept up to date. */
  showOpened(row) {
    const { list } = this.opened;
    list.grid.selected = row.key;
    list.grid.soon();
    this.app.panel.showFigures(list.title, row.title ?? row.cells[list.columns[0].id], list.columns, row.cells);
  }

  putTiles(tiles) {
    this.tiles.hidden = false;
    const names = tiles.map(([name]) => name);
    if (this.tileNames?.join("\n") !== names.join("\n")) {
      this.tileNames = names;
      this.tileValues = names.map(() => make("dd"));
      this.tiles.replaceChildren(...names.map((name, i) => make("div", {}, make("dt", { text: name }), this.tileValues[i])));
    }
    tiles.forEach(([, value], i) => setText(this.tileValues[i], value));
  }

  problem(error) {
    this.problemText.hidden = !error;
    setText(this.problemText, error ? error.message : "");
  }

  open() {
    clearInterval(this.timer);
    this.timer = setInterval(() => { if (!document.hidden && this.app.isLive) this.load(); }, POLL_MS);
    return this.load();
  }

  async load() {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      await this.read();
      this.problem(null);
    } catch (error) {
      if (error instanceof ServerError && !this.isClosed) this.problem(error);
    } finally {
      this.isLoading = false;
    }
  }

  take() {}

  select() {
    this.opened = null;
    for (const grid of this.grids) { grid.selected = null; grid.soon(); }
  }

  close() {
    this.isClosed = true;
    clearInterval(this.timer);
    for (const grid of this.grids) grid.close();
  }
}

const duration = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`);
const lagText = (lag) => (lag === null || lag === undefined ? "" : lag === 0 ? "none" : plural(lag, "change"));

export class FeedsView extends FiguresView {
  constructor(app, host) {
    super(app, host, "Feeds");
    this.list = this.addList("", [
      { id: "process", label: "Process", width: 136 },
      { id: "purpose", label: "Purpose", width: 86 },
      { id: "selection", label: "Selection", width: 262, class: "t-code" },
      { id: "routing", label: "Routing", width: 240 },
      { id: "state", label: "State", width: 66 },
      { id: "delivered", label: "Delivered", width: 90, align: "end", class: "t-count" },
      { id: "queued", label: "Queue", width: 68, align: "end", class: "t-count" },
      { id: "lag", label: "Lag", width: 86, align: "end", class: "end" },
      { id: "dropped", label: "Dropped", width: 84, align: "end", class: "t-count" },
      { id: "seq", label: "At change", width: 96, align: "end", class: "t-count", isQuiet: true },
      { id: "squash", label: "Squash", width: 84, align: "end", class: "end" },
      { id: "delivery", label: "Delivery", width: 150 },
    ], "No feed is open. A program opens one with  table.changes()  or  selection.live().");
    this.list.block.classList.add("fills");
  }

  async read() {
    const answer = await ask("api/activity");
    if (this.isClosed) return;
    const rows = [];
    for (const process of answer.processes ?? []) {
      const pid = process.process ?? process.pid;
      const name = `${process.program ? `${process.program} ` : ""}${pid}`;
      (process.feeds ?? []).forEach((feed, index) => rows.push({
        key: `${pid} ${feed.id ?? index}`,
        title: text(feed.selection),
        warn: { lag: (feed.lag ?? 0) > 0, dropped: (feed.dropped ?? 0) > 0 },
        cells: {
          process: name, purpose: feed.purpose ?? "feed", selection: text(feed.selection), routing: text(feed.routing),
          state: text(feed.state), delivered: number(feed.delivered), queued: number(feed.queued), dropped: number(feed.dropped),
          seq: number(feed.seq), lag: feed.lag === 0 ? "none" : number(feed.lag), delivery: text(feed.delivery),
          squash: feed.squash_s === null || feed.squash_s === undefined ? "" : feed.squash_s === 0 ? "yes" : `${feed.squash_s} s`,
        },
      }));
    }
    this.list.put(rows);
    const processes = (answer.processes ?? []).filter((process) => process.feeds?.length).length;
    const more = typeof answer.others === "string" && answer.others !== "asked" ? ` · ${answer.others}` : "";
    setText(this.summary, `${plural(rows.length, "feed")}${processes ? ` in ${plural(processes, "process", "processes")}` : ""}${more}${this.app.at === null ? "" : " · as of now"}`);
  }
}

export class ConsumersView extends FiguresView {
  constructor(app, host) {
    super(app, host, "Consumers");
    this.consumers = this.addList("Durable consumers", [
      { id: "name", label: "Name", width: 190 },
      { id: "position", label: "Done up to", width: 110, align: "end", class: "t-count" },
      { id: "lag", label: "Lag", width: 130, align: "end", class: "end" },
      { id: "age", label: "Oldest waits", width: 110, align: "end", class: "end" },
      { id: "holder", label: "Worker", width: 210 },
      { id: "letters", label: "Dead letters", width: 104, align: "end", class: "t-count" },
      { id: "state", label: "State", width: 300 },
    ], "No consumer has a name in this file.");
    this.holds = this.addList("Readers that hold history", [
      { id: "by", label: "Reader", width: 330 },
      { id: "from", label: "Needs the log from", width: 160, align: "end", class: "t-count" },
      { id: "changes", label: "Holds", width: 150, align: "end", class: "end" },
    ], "Nothing holds the log back: old changes go as retention says.");
  }

  async read() {
    const answer = await ask("api/activity");
    if (this.isClosed) return;
    const head = answer.seq ?? this.app.seq;
    const consumers = asList(answer.consumers);
    this.consumers.put(consumers.map((consumer) => ({
      key: `${consumer.name} ${consumer.partition ?? 0}`,
      warn: { lag: consumer.lag > 0, letters: consumer.dead_letters > 0, state: consumer.is_lost || Boolean(consumer.error) },
      cells: {
        name: consumer.partitions > 1 ? `${consumer.name}, part ${consumer.partition + 1} of ${consumer.partitions}` : text(consumer.name),
        position: number(consumer.seq), lag: lagText(consumer.lag),
        age: consumer.lag > 0 && typeof consumer.lag_s === "number" ? duration(consumer.lag_s) : "",
        holder: consumer.holder === null ? "no worker now" : text(consumer.holder),
        letters: number(consumer.dead_letters),
        state: consumer.is_lost ? "history that it needs is gone" : consumer.error ? `attempt ${consumer.attempts}: ${text(consumer.error)}` : "",
      },
    })));
    this.holds.put(asList(answer.holds).map((hold) => ({
      key: `${hold.by} ${hold.from}`,
      cells: { by: text(hold.by), from: number(hold.from), changes: typeof hold.from === "number" ? plural(Math.max(0, head - hold.from), "change") : "" },
    })));
    setText(this.summary, plural(consumers.length, "consumer") + (this.app.at === null ? "" : " · as of now"));
  }
}

export class StorageView extends FiguresView {
  constructor(app, host) {
    super(app, host, "Storage");
    this.indexes = this.addList("Indexes", [
      { id: "table", label: "Table", width: 170 },
      { id: "name", label: "Index", width: 170 },
      { id: "expression", label: "Of", width: 300, class: "t-code" },
      { id: "kind", label: "Kind", width: 150 },
      { id: "state", label: "State", width: 100 },
    ], "No table has a secondary index.");
    this.tables = this.addList("Tables", [
      { id: "name", label: "Table", width: 170 },
      { id: "count", label: "Documents", width: 120, align: "end", class: "t-count" },
      { id: "primary_key", label: "Primary key", width: 150 },
      { id: "last_seq", label: "Last change", width: 120, align: "end", class: "t-count" },
      { id: "expiry", label: "Expiry", width: 260 },
    ], "There is no table yet.");
  }

  async read() {
    const answer = await this.app.readOverview();
    if (this.isClosed || !answer) return;
    const history = answer.history ?? {};
    const retention = history.retention;
    this.putTiles([
      ["File", bytes(answer.file_bytes)],
      ["Write-ahead log", bytes(answer.wal_bytes)],
      ["History", bytes(history.bytes)],
      ["History at most", history.limit_bytes ? bytes(history.limit_bytes) : "no limit"],
      ["Retention", typeof retention === "object" && retention !== null
        ? Object.entries(retention).map(([name, value]) => `${words(name)} ${value}`).join(", ") : text(retention)],
      ["Newest change", count(answer.seq ?? 0)],
      ["Oldest kept", count((answer.oldest ?? 0) + 1)],
      ["Kept since", answer.oldest_time ? moment(answer.oldest_time) : "–"],
    ]);
    this.indexes.put(answer.tables.flatMap((table) => (table.indexes ?? []).map((index) => ({
      key: `${table.name} ${index.name}`,
      cells: {
        table: table.name, name: index.name, expression: text(index.expression), state: index.ready === false ? "being built" : "ready",
        kind: [index.unique && "unique", index.multi && "multi"].filter(Boolean).join(", ") || "plain",
      },
    }))));
    this.tables.put(answer.tables.map((table) => ({
      key: table.name,
      cells: { name: table.name, count: number(table.count), primary_key: table.primary_key ?? "made by the database",
        last_seq: number(table.last_seq), expiry: text(table.expiry) },
    })));
    setText(this.summary, answer.path ?? answer.file ?? "");
  }
}

const words = (name) => { const said = name.replaceAll("_", " "); return said[0].toUpperCase() + said.slice(1); };
const text = (value) => (value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));
const number = (value) => (typeof value === "number" ? count(value) : text(value));
const asList = (value) => (Array.isArray(value) ? value : Object.entries(value ?? {}).map(([name, each]) => ({ name, ...each })));
