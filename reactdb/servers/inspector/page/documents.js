// Documents of a table: a grid over a moving result of any length.
//
// The page holds one window of rows around what is visible. Changes of the stream are put into it at once; where they may have
// moved rows, the window is fetched again, and the first visible document stays at its pixel.

import { ask, ServerError } from "./api.js";
import { announce, make, setText, throttled, widthOf } from "./dom.js";
import { brief, count, fieldName, plural, shownKey, typeOf } from "./format.js";
import { Grid } from "./grid.js";

const LEAD = 60;
const MOST_ROWS = 500;
const MOST_COLUMNS = 60;
const RELOAD_MS = 250;
const FRESH_MS = 1500;
const BEHIND_MS = 4000;

export class DocumentsView {
  constructor(app, host) {
    this.app = app;
    this.rows = [];
    this.offset = 0;
    this.total = 0;
    this.seq = 0;
    this.recent = new Map();
    this.fresh = new Map();
    this.fields = [];
    this.generation = 0;
    this.isLoading = false;
    this.isStale = true;
    this.reload = throttled(RELOAD_MS, () => { if (!this.isClosed) this.load(); });
    this.counted = 0;
    this.build(host);
  }

  build(host) {
    this.heading = make("h1", { tabindex: "-1" });
    this.summary = make("span", { class: "summary" });
    this.insertButton = make("button", { text: "Insert", title: "Insert a document (I)", on: { click: () => this.app.panel.insert(this.table) } });
    this.insertButton.hidden = !this.app.canWrite;
    this.insertButton.disabled = this.app.at !== null;
    this.search = make("input", {
      type: "search", id: "search", placeholder: "Condition", spellcheck: "false",
      autocomplete: "off", autocapitalize: "off", "aria-label": "Condition", "aria-describedby": "search-problem",
      on: {
        input: () => this.typed(),
        keydown: (event) => this.searchKey(event),
      },
    });
    this.searchProblem = make("p", { id: "search-problem", class: "field-problem", hidden: true });
    this.above = make("button", { class: "pill", hidden: true, on: { click: () => { this.grid.toTop(); this.grid.focus(); this.changedAbove = 0; this.show(); } } });
    this.empty = make("p", { class: "empty", hidden: true });
    this.place = make("span", { class: "place" });
    this.goto = make("input", { type: "text", inputmode: "numeric", class: "goto", "aria-label": "Go to row", title: "Go to row (G)",
      on: { keydown: (event) => this.gotoKey(event), blur: () => this.showPlace() } });
    const holder = make("div", { class: "grid-holder" }, this.above, this.empty);
    this.root = make("section", { class: "view" },
      make("div", { class: "toolbar" }, this.heading, this.summary, make("span", { class: "space" }), this.insertButton),
      make("div", { class: "searchbar" }, this.search, make("kbd", { class: "hint", text: "/" }), this.searchProblem),
      holder,
      make("div", { class: "status" }, make("label", {}, "Row ", this.goto), this.place));
    host.replaceChildren(this.root);
    this.grid = new Grid(holder, {
      label: "Documents",
      row: (index) => this.rows[index - this.offset],
      text: (row, column) => this.cellText(row, column),
      type: (row, column) => (column.isKey ? `t-key t-${shownKey(row.key).type}` : column.isSign ? "t-sign" : `t-${typeOf(row.doc?.[column.id])}`),
      rowClass: (row) => (row.isGone ? "gone" : this.fresh.has(row.key) ? "fresh" : ""),
      onSort: (column) => this.sort(column),
      onOpen: (row) => this.app.openDocument(this.table, row.key),
      onMove: (row) => { if (row) this.app.followDocument(this.table, row.key); },
      onScroll: () => this.scrolled(),
    });
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.typing);
    clearTimeout(this.behindTimer);
    clearTimeout(this.freshTimer);
    this.grid.close();
  }

  cellText(row, column) {
    if (column.isSign) return row.isGone ? "−" : this.fresh.has(row.key) ? "+" : "";
    if (column.isKey) return shownKey(row.key).text;
    const value = row.doc !== null && Object.hasOwn(row.doc, column.id) ? row.doc[column.id] : undefined;
    return brief(value);
  }

  // ---- what is shown -----------------------------------------------------------------------------------------------

  /** Shows a table, or the same one by another condition or order. */
  open({ table, where, order, desc }) {
    const isOther = table !== this.table;
    const isSame = !isOther && where === this.where && order === this.order && desc === this.desc;
    if (isSame) return this.load();
    Object.assign(this, { table, where, order, desc });
    this.generation += 1;
    if (isOther) {
      this.counted = 0;
      this.fields = [];
      this.rows = [];
      this.offset = this.total = 0;
      this.grid.selected = null;
      this.grid.root.scrollLeft = 0;
      this.grid.setTotal(0);
      this.grid.setColumns([]);
      this.problem(null);
    }
    if (document.activeElement !== this.search) this.search.value = where;
    this.grid.root.setAttribute("aria-label", `Documents of ${table}`);
    setText(this.heading, table);
    this.heading.title = table;
    this.grid.toTop();
    this.isFirst = true;
    this.changedAbove = 0;
    return this.load();
  }

  select(key) {
    this.grid.selected = key;
    this.grid.soon();
  }

  /** Fetches the window around what is visible. One question at a time; a wish that comes meanwhile is met afterwards. */
  async load() {
    if (this.isLoading) { this.again = true; return this.loading; }
    this.isLoading = true;
    this.loading = this.loadAll();
    return this.loading;
  }

  async loadAll() {
    try {
      do {
        this.again = false;
        await this.loadOnce();
      } while (this.again && !this.isClosed);
    } finally {
      this.isLoading = false;
    }
  }

  async loadOnce() {
    const { generation, table } = this;
    if (table === undefined) return;
    const at = this.app.at;
    const first = this.grid.firstIndex;
    const anchor = this.isFirst ? undefined : this.anchorAt(first);
    const offset = Math.max(0, first - LEAD);
    const limit = Math.min(MOST_ROWS, this.grid.visibleRows + 2 * LEAD);
    this.isStale = false;
    const began = performance.now();
    let answer;
    try {
      answer = await ask("api/rows", { table, at, where: this.where, order: this.order, desc: this.desc && this.order ? 1 : undefined,
        offset: offset || undefined, limit, anchor: anchor?.key, lead: anchor ? anchor.index - offset : undefined });
    } catch (error) {
      if (this.isClosed || generation !== this.generation) return;
      if (error instanceof ServerError) this.problem(error);
      this.isStale = true;
      return;
    }
    if (this.isClosed) return;
    if (generation !== this.generation || at !== this.app.at) { this.again = true; return; }
    this.problem(null);
    this.put(answer, anchor);
    this.took = performance.now() - began;
  }

  anchorAt(index) {
    for (let i = index; i < index + this.grid.visibleRows; i++) {
      const row = this.rows[i - this.offset];
      if (row && !row.isGone) return { key: row.key, index: i };
    }
    return undefined;
  }

  put(answer, anchor) {
    const places = new Map(answer.rows.map((row, i) => [row.key, answer.offset + i]));
    let shift = this.isFirst ? 0 : this.shiftOf(places);
    if (shift === null) shift = anchor && typeof answer.anchor === "number" ? answer.anchor - anchor.index : 0;
    // A change that came by the stream after this answer was made stays.
    const shownSeq = answer.as_of ?? answer.seq;
    for (const [key, change] of this.recent) {
      if (change.seq <= shownSeq) this.recent.delete(key);
    }
    for (const row of answer.rows) {
      const later = this.recent.get(row.key);
      if (later && this.app.at === null) {
        if (later.doc === null) row.isGone = true;
        else row.doc = later.doc;
      }
    }
    if (shift < 0 || shift > 0) this.changedAbove = Math.max(0, (this.changedAbove ?? 0) + shift);
    this.rows = answer.rows;
    this.offset = answer.offset;
    this.total = answer.total;
    this.seq = shownSeq;
    // Of a very large table a condition or an order is computed each some seconds only.
    this.isBehind = answer.as_of !== undefined && answer.as_of !== null && answer.as_of < answer.seq;
    clearTimeout(this.behindTimer);
    if (this.isBehind) this.behindTimer = setTimeout(() => this.reload(), BEHIND_MS);
    this.isFirst = false;
    this.isLoaded = true;
    this.learnFields();
    this.grid.shift(shift, answer.total);
    this.grid.draw();
    this.show();
    // The reader may have gone on while the answer was on its way.
    if (!this.isCovered()) this.again = true;
  }

  /** By how many rows the visible documents have moved, or null if the answer has none of them. */
  shiftOf(places) {
    const first = this.grid.firstIndex;
    const moves = [];
    for (let i = first; i < first + this.grid.visibleRows; i++) {
      const row = this.rows[i - this.offset];
      const place = row && places.get(row.key);
      if (place !== undefined) moves.push(place - i);
    }
    if (!moves.length) return null;
    const middle = [...moves].sort((a, b) => a - b)[moves.length >> 1];
    // A document that has itself moved far away (a new place in the order) is not followed; the others stay.
    return moves.find((move) => Math.abs(move - middle) <= this.grid.visibleRows) ?? middle;
  }

  isCovered() {
    const first = this.grid.firstIndex;
    const last = Math.min(this.total, first + this.grid.visibleRows + 1);
    return first >= this.offset && last <= this.offset + this.rows.length;
  }

  scrolled() {
    if (!this.grid) return;
    const first = this.grid.firstIndex;
    const last = Math.min(this.total, first + this.grid.visibleRows);
    const end = this.offset + this.rows.length;
    const isNear = first < this.offset + LEAD / 3 && this.offset > 0 || last > end - LEAD / 3 && end < this.total;
    if (this.isLoaded && isNear && !this.isWaiting) {
      this.isWaiting = true;
      setTimeout(() => { this.isWaiting = false; if (!this.isClosed) this.load(); }, this.isCovered() ? 60 : 16);
    }
    if (this.grid.top < 1 && this.changedAbove) { this.changedAbove = 0; }
    this.showPlace();
    this.showAbove();
  }

  // ---- columns -----------------------------------------------------------------------------------------------------

  learnFields() {
    const known = new Set(this.fields.map((field) => field.id));
    const key = this.app.tableInfo(this.table)?.primary_key ?? "id";
    const added = [];
    for (const row of this.rows) {
      for (const name of Object.keys(row.doc ?? {})) {
        if (!known.has(name) && name !== key && known.size < MOST_COLUMNS) { known.add(name); added.push(name); }
      }
    }
    const isFirst = !this.fields.length;
    if (!added.length && !isFirst && this.sortShown === this.sortName()) return;
    const sample = this.rows.slice(0, 120);
    const isKeyed = this.app.tableInfo(this.table)?.primary_key !== null;
    if (isFirst) {
      this.fields.push({ id: "\u0000sign", label: "", width: 26, isSign: true, isQuiet: true, title: "+ new, − deleted" });
      this.fields.push({ id: key, label: key, width: this.widthOf(key, sample.map((row) => shownKey(row.key).text), "550"), isKey: true, isQuiet: true,
        canSort: isKeyed, title: `${key}: the key. Numbers have the colour of numbers.` });
    }
    for (const name of added) {
      const values = sample.map((row) => row.doc?.[name]).filter((value) => value !== undefined);
      const isNumber = values.length > 0 && values.every((value) => typeof value === "number" || value === null);
      this.fields.push({ id: name, label: name, align: isNumber ? "end" : "", canSort: true,
        width: this.widthOf(name, values.map((value) => brief(value, 60))) });
    }
    this.sortShown = this.sortName();
    for (const field of this.fields) {
      field.sort = !field.canSort ? undefined
        : this.order !== fieldName(field.id) ? "none" : this.desc ? "descending" : "ascending";
    }
    this.grid.setColumns(this.fields);
    this.search.placeholder = this.exampleCondition();
  }

  /** A condition that a reader can type for this table. */
  exampleCondition() {
    for (const { id } of this.fields.filter((field) => !field.isSign && !field.isKey)) {
      const value = this.rows.map((row) => row.doc?.[id]).find((each) => typeof each === "number" || typeof each === "boolean"
        || (typeof each === "string" && /^[A-Za-z][\w-]{0,15}$/.test(each) && !["true", "false", "null", "and", "or", "not"].includes(each)));
      if (value !== undefined) return `Condition, such as  ${fieldName(id)}${typeof value === "number" ? ">=" : "="}${value}`;
    }
    return "Condition";
  }

  sortName() { return `${this.order} ${this.desc}`; }

  widthOf(name, texts, style = "") {
    let most = widthOf(name, "550") + 18;
    for (const text of texts) most = Math.max(most, widthOf(text, style));
    return Math.max(56, Math.min(340, Math.ceil(most) + 22));
  }

  sort(column) {
    const name = fieldName(column.id);
    const next = this.order !== name ? { order: name, desc: false } : !this.desc ? { order: name, desc: true } : { order: "", desc: false };
    announce(next.order ? `Ordered by ${column.label}, ${next.desc ? "descending" : "ascending"}` : "In the order of the keys");
    this.app.go({ ...next });
  }

  // ---- the stream --------------------------------------------------------------------------------------------------

  /** Takes what one frame has gathered: {changes, counts, skipped, isResumed}. */
  take(gathered) {
    if (this.app.at !== null) return;
    const counts = gathered.counts[this.table];
    if (!counts && !gathered.isResumed) return;
    const now = performance.now();
    let mayMove = gathered.skipped > 0 || gathered.isResumed || Boolean(this.where) || Boolean(this.order);
    if (counts && (counts[0] || counts[2])) mayMove = true;
    let isTouched = false;
    const places = new Map(this.rows.map((row) => [row.key, row]));
    for (const change of gathered.changes) {
      if (change.table !== this.table || change.seq <= this.seq) continue;
      this.recent.set(change.key, { seq: change.seq, doc: change.cut ? undefined : change.new });
      if (change.kind === "insert") this.fresh.set(change.key, now + FRESH_MS);
      const row = places.get(change.key);
      if (!row) continue;
      isTouched = true;
      if (change.cut) { this.recent.delete(change.key); mayMove = true; } else if (change.new === null) row.isGone = true;
      else { row.isGone = false; row.doc = change.new; }
    }
    if (this.recent.size > 5000) this.recent.clear();
    this.sweepFresh(now);
    if (isTouched) this.grid.draw();
    if (mayMove) { this.isStale = true; if (!document.hidden) this.reload(); }
    this.counted += counts ? counts[0] + counts[1] + counts[2] : 0;
    if (this.counted) announce(`${this.table}: ${plural(this.counted, "change")} since it was opened`);
  }

  sweepFresh(now) {
    if (!this.fresh.size) return;
    for (const [key, until] of this.fresh) if (until <= now) this.fresh.delete(key);
    clearTimeout(this.freshTimer);
    if (this.fresh.size) this.freshTimer = setTimeout(() => { this.sweepFresh(performance.now()); if (!this.isClosed) this.grid.soon(); }, FRESH_MS);
  }

  // ---- search and place --------------------------------------------------------------------------------------------

  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.app.go({ where: this.search.value.trim() }), 350);
  }

  searchKey(event) {
    if (event.key === "Enter") {
      clearTimeout(this.typing);
      this.app.go({ where: this.search.value.trim() });
      if (this.where === this.search.value.trim()) this.load();
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      if (this.search.value) { this.search.value = ""; clearTimeout(this.typing); this.app.go({ where: "" }); } else this.grid.focus();
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      this.grid.focus();
    }
  }

  gotoKey(event) {
    event.stopPropagation();
    if (event.key === "Escape") return this.grid.focus();
    if (event.key !== "Enter") return undefined;
    const row = Number(this.goto.value.replace(/[\s,._]/g, ""));
    if (Number.isInteger(row) && row >= 1) this.grid.moveTo(row - 1, this.grid.active.column);
    return undefined;
  }

  focusGoto() { this.goto.focus(); this.goto.select(); }

  problem(error) {
    const isCondition = error !== null && error.status === 400;
    this.search.setAttribute("aria-invalid", String(isCondition));
    // What the condition before it had found says nothing about this one.
    if (isCondition) this.empty.hidden = true;
    this.searchProblem.hidden = error === null;
    setText(this.searchProblem, error === null ? "" : error.message);
  }

  show() {
    const whole = this.app.countOf(this.table);
    const text = this.where && whole !== undefined ? `${count(this.total)} of ${plural(whole, "document")}` : plural(this.total, "document");
    setText(this.summary, this.isBehind ? `${text}, some seconds ago` : text);
    const isEmpty = this.isLoaded && this.total === 0 && this.searchProblem.hidden;
    this.empty.hidden = !isEmpty;
    if (isEmpty) {
      setText(this.empty, this.where ? "No document matches this condition." : this.app.at !== null ? "The table had no documents then."
        : "This table has no documents yet.");
    }
    this.showPlace();
    this.showAbove();
  }

  showPlace() {
    const first = this.total ? this.grid.firstIndex + 1 : 0;
    if (document.activeElement !== this.goto) this.goto.value = count(this.grid.active.index >= 0 && this.isActiveVisible() ? this.grid.active.index + 1 : first);
    setText(this.place, `of ${count(this.total)}`);
  }

  isActiveVisible() {
    const { index } = this.grid.active;
    return this.total > 0 && index >= this.grid.firstIndex && index < this.grid.firstIndex + this.grid.visibleRows;
  }

  showAbove() {
    const isShown = this.changedAbove > 0 && this.grid.top > this.grid.rowHeight;
    this.above.hidden = !isShown;
    if (isShown) setText(this.above, `↑ ${count(this.changedAbove)} new above`);
  }
}
