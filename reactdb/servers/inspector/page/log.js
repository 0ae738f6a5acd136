// The log as it moves, the newest change first. A reader who has scrolled, or paused, is not moved: newer changes wait.

import { ask, ServerError } from "./api.js";
import { changeLine, changeText } from "./changes.js";
import { announce, make, setText } from "./dom.js";
import { count, kindSign, moment, plural, shownKey } from "./format.js";
import { Grid } from "./grid.js";

const PAGE = 200;
const MOST_CHANGES = 5000;
const MOST_WAITING = 2000;
// A filter that meets nothing is followed through the log in steps of the server, at most so many for one scroll.
const MOST_STEPS = 20;
const DOCUMENT_KINDS = ["insert", "update", "replace", "delete"];

export class LogView {
  constructor(app, host) {
    this.app = app;
    this.changes = [];
    this.waiting = [];
    this.waitingCount = 0;
    this.filter = { table: "", kind: "", origin: "" };
    this.isPaused = false;
    this.generation = 0;
    this.skipped = 0;
    this.build(host);
  }

  build(host) {
    this.summary = make("span", { class: "summary" });
    this.pauseButton = make("button", { "aria-pressed": "false", title: "Pause (P)", on: { click: () => this.pause() } }, "Pause ", make("kbd", { text: "P" }));
    const changed = () => this.setFilter();
    this.tableSelect = make("select", { "aria-label": "Table", on: { change: changed } });
    this.kindSelect = make("select", { "aria-label": "Kind", on: { change: changed } },
      ...["", ...DOCUMENT_KINDS].map((kind) => make("option", { value: kind, text: kind || "All kinds" })));
    this.origins = make("datalist", { id: "origins" });
    this.originInput = make("input", { type: "search", id: "origin-filter", list: "origins", placeholder: "Origin", "aria-label": "Origin",
      autocomplete: "off", spellcheck: "false", on: { change: changed, search: changed } });
    this.seenOrigins = new Set();
    this.newer = make("button", { class: "pill", hidden: true, on: { click: () => this.catchUp() } });
    this.empty = make("p", { class: "empty", hidden: true });
    this.problemText = make("p", { class: "field-problem", hidden: true });
    const holder = make("div", { class: "grid-holder" }, this.newer, this.empty);
    this.root = make("section", { class: "view" },
      make("div", { class: "toolbar" }, make("h1", { text: "Log", tabindex: "-1" }), this.summary, make("span", { class: "space" }), this.pauseButton),
      make("div", { class: "filters" }, this.tableSelect, this.kindSelect, this.originInput, this.origins, this.problemText),
      holder);
    host.replaceChildren(this.root);
    this.grid = new Grid(holder, {
      label: "Changes, the newest first",
      row: (index) => this.changes[index],
      text: (change, column) => this.cellText(change, column),
      type: (change, column) => (column.id === "kind" ? `k-${change.kind}`
        : column.id === "key" ? `t-key t-${shownKey(change.documentKey).type}` : column.class ?? ""),
      rowClass: (change) => (change.freshUntil > performance.now() ? "fresh" : ""),
      onOpen: (change) => {
        // A change of a table or an index itself has no document.
        if (!DOCUMENT_KINDS.includes(change.kind)) return;
        this.grid.selected = change.key;
        this.grid.soon();
        this.app.openDocument(change.table, change.documentKey, change.seq);
      },
      onMove: (change) => {
        if (!change || !DOCUMENT_KINDS.includes(change.kind) || !this.app.panel.isOpen) return;
        this.grid.selected = change.key;
        this.app.followDocument(change.table, change.documentKey, change.seq);
      },
      onScroll: () => this.scrolled(),
    });
    this.grid.flashes = false;
    this.narrow = matchMedia("(max-width: 560px)");
    this.arrange = () => this.setColumns();
    this.narrow.addEventListener("change", this.arrange);
    this.setColumns();
  }

  setColumns() {
    const seq = { id: "seq", label: "Change", width: 84, align: "end", class: "t-count" };
    const time = { id: "time", label: "Time", width: 118, class: "t-time" };
    const kind = { id: "kind", label: "Kind", width: 88 };
    const table = { id: "table", label: "Table", width: 96 };
    const key = { id: "key", label: "Key", width: 138 };
    const origin = { id: "origin", label: "Origin", width: 132, class: "t-origin" };
    const what = { id: "what", label: "What changed", width: 640, class: "t-what", put: (cell, change) => cell.replaceChildren(...changeLine(change)) };
    // A narrow window shows only the first columns without scrolling: there, what has changed is more wanted than when.
    this.grid.setColumns(this.narrow.matches
      ? [{ ...kind, width: 80 }, { ...key, width: 96 }, { ...what, width: 420 }, table, origin, time, seq]
      : [seq, time, kind, table, key, origin, what]);
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.freshTimer);
    this.narrow.removeEventListener("change", this.arrange);
    this.grid.close();
  }

  select(key) {
    if (key === null) { this.grid.selected = null; this.grid.soon(); }
  }

  cellText(change, column) {
    switch (column.id) {
      case "seq": return count(change.seq);
      case "time": return (change.timeText ??= moment(change.time, { millis: true }));
      case "kind": return `${kindSign(change.kind)} ${change.kind}`;
      case "table": return change.table;
      case "key": return shownKey(change.documentKey).text;
      case "origin": return change.origin ?? "";
      default: return (change.what ??= changeText(change));
    }
  }

  row(change) {
    if (change.origin && !this.seenOrigins.has(change.origin) && this.seenOrigins.size < 100) {
      this.seenOrigins.add(change.origin);
      this.origins.append(make("option", { value: change.origin }));
    }
    return { ...change, documentKey: change.key, key: String(change.seq) };
  }

  open() {
    this.showTables();
    return this.load();
  }

  showTables() {
    const names = this.app.tables.map((table) => table.name);
    const shown = [...this.tableSelect.options].slice(1).map((option) => option.value);
    if (this.tableSelect.options.length && names.join("\n") === shown.join("\n")) return;
    this.tableSelect.replaceChildren(make("option", { value: "", text: "All tables" }), ...names.map((name) => make("option", { value: name, text: name })));
    this.tableSelect.value = this.filter.table;
  }

  setFilter() {
    this.filter = { table: this.tableSelect.value, kind: this.kindSelect.value, origin: this.originInput.value.trim() };
    this.load();
  }

  isWanted(change) {
    const { table, kind, origin } = this.filter;
    return (!table || change.table === table) && (!kind || change.kind === kind) && (!origin || change.origin === origin);
  }

  /** The newest page, from the moment shown. */
  async load() {
    this.generation += 1;
    this.waiting = [];
    this.waitingCount = 0;
    this.isOverflowing = false;
    this.skipped = 0;
    this.before = this.app.at === null ? null : this.app.at + 1;
    this.isAtEnd = false;
    this.isLoading = false;
    await this.loadOlder(true);
  }

  async loadOlder(isFirst = false) {
    if (this.isLoading || this.isAtEnd && !isFirst) return;
    this.isLoading = true;
    const { generation } = this;
    let found = [];
    try {
      for (let step = 0; step < MOST_STEPS && found.length < (isFirst ? 60 : 1); step++) {
        const answer = await ask("api/log", { before: this.before, limit: PAGE, ...this.filter });
        if (this.isClosed || generation !== this.generation) return;
        const rows = answer.changes.map((change) => this.row(change));
        found = found.concat(rows);
        this.before = answer.next_before ?? rows.at(-1)?.seq ?? this.before;
        if (!answer.more) { this.isAtEnd = true; break; }
      }
      this.problemText.hidden = true;
    } catch (error) {
      if (this.isClosed || generation !== this.generation) return;
      if (error instanceof ServerError) { this.problemText.hidden = false; setText(this.problemText, error.message); }
      this.isLoading = false;
      return;
    }
    this.isLoading = false;
    if (isFirst) {
      // Changes that the stream has brought while this answer was on its way.
      const newest = found[0]?.seq ?? 0;
      this.changes = [...this.waiting.filter((change) => change.seq > newest), ...found];
      this.waiting = [];
      this.waitingCount = 0;
      this.grid.toTop();
    } else {
      const oldest = this.changes.at(-1)?.seq ?? Infinity;
      this.changes = this.changes.concat(found.filter((change) => change.seq < oldest));
    }
    this.grid.setTotal(this.changes.length);
    this.grid.draw();
    this.show();
    if (this.app.at !== null || isFirst) this.scrolled();
  }

  get isFollowing() { return !this.isPaused && this.app.at === null && this.grid.top < 4; }

  /** Takes what one frame has gathered. */
  take(gathered) {
    if (this.app.at !== null) return;
    if (gathered.isResumed && gathered.skipped > 0 && this.isFollowing) { this.load(); return; }
    const wanted = gathered.changes.filter((change) => this.isWanted(change) && change.seq > (this.waiting[0] ?? this.changes[0] ?? { seq: 0 }).seq);
    this.showTables();
    if (gathered.skipped > 0) this.skipped += gathered.skipped;
    if (!wanted.length) return;
    wanted.sort((a, b) => b.seq - a.seq);
    const now = performance.now();
    const rows = wanted.map((change) => this.row(change));
    this.waiting = rows.concat(this.waiting);
    this.waitingCount += rows.length;
    if (this.waiting.length > MOST_WAITING) { this.waiting.length = MOST_WAITING; this.isOverflowing = true; }
    announce(`Log: up to change ${count(rows[0].seq)}`);
    if (this.isLoading) return;
    if (this.isFollowing) {
      for (const row of rows) row.freshUntil = now + 450;
      this.flush();
      clearTimeout(this.freshTimer);
      this.freshTimer = setTimeout(() => this.grid.soon(), 500);
    } else this.show();
  }

  flush() {
    this.changes = this.waiting.concat(this.changes);
    const shift = this.waiting.length;
    this.waiting = [];
    this.waitingCount = 0;
    if (this.changes.length > MOST_CHANGES) {
      this.changes.length = MOST_CHANGES;
      this.before = this.changes.at(-1).seq;
      this.isAtEnd = false;
    }
    if (this.grid.active.key !== null && this.grid.active.index >= 0) this.grid.active.index += shift;
    this.grid.setTotal(this.changes.length);
    this.grid.draw();
    this.show();
  }

  /** To the newest change; the pause ends. */
  catchUp() {
    if (this.isPaused) this.setPaused(false);
    this.load();
    this.grid.focus();
  }

  pause() {
    this.setPaused(!this.isPaused);
    if (!this.isPaused && this.waitingCount) this.load();
    this.show();
  }

  setPaused(isPaused) {
    this.isPaused = isPaused;
    this.pauseButton.setAttribute("aria-pressed", String(isPaused));
    setText(this.pauseButton.firstChild, isPaused ? "Go on " : "Pause ");
  }

  scrolled() {
    if (!this.grid) return;
    if (this.isFollowing && this.waiting.length && !this.isLoading) {
      if (this.isOverflowing) this.load();
      else this.flush();
    }
    if (this.grid.firstIndex + this.grid.visibleRows * 2 > this.changes.length && !this.isAtEnd && this.changes.length) this.loadOlder();
    this.show();
  }

  show() {
    const state = this.app.at !== null ? "as of the moment shown" : this.isPaused ? "paused" : this.grid.top >= 4 ? "waiting while you read" : "moving";
    setText(this.summary, this.skipped ? `${state} · ${count(this.skipped)} came too fast to show` : state);
    this.root.classList.toggle("is-paused", this.isPaused);
    this.newer.hidden = !(this.waitingCount > 0 && this.app.at === null);
    if (!this.newer.hidden) setText(this.newer, `↑ ${plural(this.waitingCount, "newer change")}`);
    const isEmpty = !this.changes.length;
    this.empty.hidden = !isEmpty;
    if (isEmpty) setText(this.empty, Object.values(this.filter).some(Boolean) ? "No change meets these filters." : "Nothing has changed yet.");
  }
}
