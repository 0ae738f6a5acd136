// The page: what is shown (table, condition, order, document, moment), the stream, the side, the line of time and the keys.

import { ConsumersView, FeedsView, StorageView } from "./activity.js";
import { ask, ChangeStream, send, ServerError } from "./api.js";
import { DocumentsView } from "./documents.js";
import { announce, byId, make, setText, takesText, throttled, toast } from "./dom.js";
import { ago, count, moment, plural } from "./format.js";
import { LogView } from "./log.js";
import { DocumentPanel } from "./panel.js";

const VIEWS = { log: ["Log", LogView], feeds: ["Feeds", FeedsView], consumers: ["Consumers", ConsumersView], storage: ["Storage", StorageView] };
const SPARK_SECONDS = 30;
const OVERVIEW_MS = 5000;
// Of changes that wait for a frame. A page in the background draws no frames.
const MOST_GATHERED = 2000;

const KEYS = [
  ["/", "Search in the table"],
  ["G", "Go to a row"],
  ["↑ ↓ ← →  Home End", "Move in a table; with Ctrl to its corners"],
  ["Page Up  Page Down", "A page of rows"],
  ["Enter", "Open the document; on a title: order by it"],
  ["Esc", "Close the document, leave the search"],
  [",  .", "One change back in time, one on"],
  ["Shift , .", "One step of the open document back, one on"],
  ["N", "Back to now"],
  ["T", "To the list of tables"],
  ["L  F  C  S", "Log, feeds, consumers, storage"],
  ["P", "Pause the log, go on"],
];
const WRITE_KEYS = [
  ["I", "Insert a document"],
  ["E", "Edit the open document"],
  ["Delete", "Delete the open document"],
  ["Ctrl Z  Ctrl Shift Z", "Undo, redo"],
];

class Inspector {
  constructor() {
    this.tables = [];
    this.seq = 0;
    this.oldest = 0;
    this.at = null;
    this.state = { view: "", table: "", where: "", order: "", desc: false, key: null };
    this.rates = new Map();
    this.second = { changes: 0, tables: new Map() };
    this.isLive = false;
    this.gathered = null;
    this.counts = new Map();
    this.panel = new DocumentPanel(this);
    this.overviewSoon = throttled(500, () => this.loadOverview());
    this.remember = throttled(200, () => this.writeHash());
  }

  async start() {
    this.listen();
    for (;;) {
      try {
        await this.readFirst();
        break;
      } catch (error) {
        this.showConnection(error instanceof ServerError && error.status === 401 ? "refused" : "lost", error);
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    }
    document.documentElement.dataset.ready = "true";
    this.stream = new ChangeStream(this.seq, (message) => this.receive(message), (state, error) => this.streamState(state, error));
    setInterval(() => this.tick(), 1000);
    setInterval(() => { if (!document.hidden && this.isLive && this.at === null) this.loadOverview(); }, OVERVIEW_MS);
  }

  async readFirst() {
    const overview = await ask("api/overview");
    this.canWrite = Boolean(overview.write);
    this.databaseId = overview.database_id;
    this.putOverview(overview);
    setText(byId("file"), overview.file ?? "");
    byId("file").title = overview.path ?? "";
    document.title = overview.file ? `${overview.file} · reactdb` : "reactdb";
    const mode = byId("mode");
    mode.hidden = false;
    setText(mode, this.canWrite ? "writable" : "read-only");
    mode.classList.toggle("writable", this.canWrite);
    mode.title = this.canWrite ? "Documents can be edited here; the edits have the origin “inspector”." : "Nothing can be changed here. Begin the inspector with --write to edit.";
    byId("undo-buttons").hidden = !this.canWrite;
    if (overview.undo) this.putUndo(overview.undo);
    this.putKeys();
    this.readHash();
    if (!this.state.view) this.state = { ...this.state, view: this.tables.length ? "table" : "log", table: this.tables[0]?.name ?? "" };
    this.buildSide();
    await this.show();
    if (this.state.key !== null && this.state.view === "table") this.openDocument(this.state.table, this.state.key);
    this.showMoment();
    if (this.at !== null) this.loadMoment();
  }

  // ---- what is shown -----------------------------------------------------------------------------------------------

  /** Goes to another table, condition, order or view. */
  go(change) {
    const next = { ...this.state, ...change };
    if ((change.table !== undefined && change.table !== this.state.table) || (change.view !== undefined && change.view !== this.state.view)) {
      if (this.panel.isEditing && this.panel.editor.isChanged) { toast("Save or cancel the edit first.", true); return; }
      if (change.where === undefined) Object.assign(next, { where: "", order: "", desc: false });
      next.key = null;
      this.panel.close();
      this.writeHash(true);
      this.state = next;
      this.writeHash(true);
    } else this.state = next;
    this.remember();
    this.show();
  }

  async show() {
    const { view, table } = this.state;
    const View = view === "table" ? DocumentsView : VIEWS[view][1];
    if (!(this.view instanceof View)) {
      this.view?.close();
      this.view = new View(this, byId("main"));
    }
    for (const button of document.querySelectorAll("#side [data-view]")) {
      const isCurrent = button.dataset.view === view && (view !== "table" || button.dataset.table === table);
      if (isCurrent) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
    if (view === "table" && !table) return;
    await this.view.open(this.state);
  }

  openDocument(table, key, seq = null) {
    this.state.key = this.state.view === "table" && this.state.table === table ? key : null;
    if (this.state.view === "table") this.view.select(key);
    this.panel.open(table, key, seq);
    this.remember();
  }

  /** While the panel is open it follows the active row. */
  followDocument(table, key, seq = null) {
    if (!this.panel.isOpen || this.panel.isEditing) return;
    clearTimeout(this.following);
    this.following = setTimeout(() => { if (this.panel.isOpen) this.openDocument(table, key, seq); }, 80);
  }

  forgetSelection() {
    this.state.key = null;
    this.view.select?.(null);
    this.remember();
  }

  closePanel() {
    const hadFocus = byId("panel").contains(document.activeElement) || document.activeElement === document.body;
    clearTimeout(this.following);
    this.panel.close();
    this.forgetSelection();
    if (hadFocus) this.view.grid?.focus();
  }

  tableInfo(name) { return this.tables.find((table) => table.name === name); }
  countOf(name) { return this.counts.get(name); }

  // ---- the hash, so that reload and back work ----------------------------------------------------------------------

  writeHash(isNew = false) {
    const { view, table, where, order, desc, key } = this.state;
    const parts = new URLSearchParams();
    if (view !== "table") parts.set("view", view);
    else parts.set("table", table);
    if (view === "table") {
      if (where) parts.set("where", where);
      if (order) parts.set("order", order);
      if (order && desc) parts.set("desc", "1");
      if (key !== null) parts.set("key", key);
    }
    if (this.at !== null) parts.set("at", String(this.at));
    const hash = `#${parts}`;
    if (hash === location.hash) return;
    if (isNew) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  }

  readHash() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const view = parts.get("view");
    const at = Number(parts.get("at"));
    this.at = parts.has("at") && Number.isInteger(at) && at >= this.oldest && at < this.seq ? at : null;
    if (view && Object.hasOwn(VIEWS, view)) this.state = { view, table: "", where: "", order: "", desc: false, key: null };
    else if (parts.get("table")) {
      this.state = { view: "table", table: parts.get("table"), where: parts.get("where") ?? "", order: parts.get("order") ?? "",
        desc: parts.get("desc") === "1", key: parts.get("key") };
    }
  }

  // ---- the stream --------------------------------------------------------------------------------------------------

  receive(message) {
    if (message.seq === undefined) return;
    // The log has gone past this page, or the file is another one: everything is read again.
    if (message.lost && message.seq < this.seq) { location.reload(); return; }
    if (message.lost) this.isResuming = true;
    const gathered = this.gathered ??= { changes: [], counts: {}, skipped: 0, tables: null, seq: 0, isResumed: false };
    gathered.changes.push(...(message.changes ?? []));
    if (gathered.changes.length > MOST_GATHERED) {
      gathered.skipped += gathered.changes.length - MOST_GATHERED;
      gathered.changes.splice(0, gathered.changes.length - MOST_GATHERED);
    }
    for (const [table, [inserted, updated, deleted]] of Object.entries(message.counts ?? {})) {
      const sum = Object.hasOwn(gathered.counts, table) ? gathered.counts[table] : gathered.counts[table] = [0, 0, 0];
      sum[0] += inserted;
      sum[1] += updated;
      sum[2] += deleted;
      const number = inserted + updated + deleted;
      this.second.changes += number;
      this.second.tables.set(table, (this.second.tables.get(table) ?? 0) + number);
    }
    gathered.skipped += message.skipped ?? 0;
    gathered.seq = Math.max(gathered.seq, message.seq);
    if (message.tables) gathered.tables = message.tables;
    if (this.isResuming) { gathered.isResumed = true; this.isResuming = false; }
    if (!this.frame) this.frame = requestAnimationFrame(() => this.applyGathered());
  }

  applyGathered() {
    this.frame = 0;
    const { gathered } = this;
    this.gathered = null;
    if (!gathered) return;
    this.seq = Math.max(this.seq, gathered.seq);
    if (gathered.tables && this.at === null) {
      const names = Object.keys(gathered.tables);
      if (names.some((name) => !this.counts.has(name)) || (names.length && [...this.counts.keys()].some((name) => !Object.hasOwn(gathered.tables, name)))) this.overviewSoon();
      for (const name of names) this.counts.set(name, gathered.tables[name]);
      this.showCounts();
    }
    this.showSlider();
    this.view?.take(gathered);
    this.panel.take(gathered);
    if (this.state.view === "table" && this.at === null && gathered.tables) this.view.show();
  }

  async streamState(state, error) {
    const wasLive = this.isLive;
    this.isLive = state === "live";
    this.showConnection(state, error);
    if (state !== "live") return;
    if (!this.wasConnected) { this.wasConnected = true; return; }
    if (wasLive) return;
    // After an interruption everything shown is read again.
    this.isResuming = true;
    try {
      const overview = await ask("api/overview");
      const isOther = overview.database_id !== this.databaseId || overview.seq < this.seq || Boolean(overview.write) !== this.canWrite;
      if (isOther) { location.reload(); return; }
      if (this.at === null) this.putOverview(overview);
      await this.view.open(this.state);
      if (this.panel.isOpen && !this.panel.isEditing) this.panel.load();
    } catch { /* the stream says when the server is back */ }
  }

  showConnection(state, error) {
    const element = byId("connection");
    element.dataset.state = state;
    setText(element.lastElementChild, { live: "Live", lost: "Reconnecting…", refused: "No access", connecting: "Connecting" }[state]);
    const problem = byId("problem");
    problem.hidden = state === "live";
    if (state === "lost") setText(problem, "The connection to the database's program is lost. What is shown is the last known state; the page comes back by itself.");
    if (state === "refused") setText(problem, error?.message || "This page has no access any more. Open the address again that reactdb open has printed.");
    document.body.classList.toggle("is-lost", state !== "live");
  }

  // ---- tables and figures ------------------------------------------------------------------------------------------

  /** The overview of the moment shown. */
  async readOverview() {
    const at = this.at;
    const overview = await ask("api/overview", { at });
    if (at !== this.at) return null;
    this.putOverview(overview);
    return overview;
  }

  async loadOverview() {
    try {
      await this.readOverview();
    } catch { /* the stream shows the state of the connection */ }
  }

  putOverview(overview) {
    this.seq = Math.max(this.seq, overview.seq ?? 0);
    this.oldest = overview.oldest ?? 0;
    this.oldestTime = overview.oldest_time;
    this.newestTime = overview.newest_time;
    if (this.at !== null) this.atTime = overview.at_time;
    this.tables = overview.tables;
    this.counts = new Map(overview.tables.map((table) => [table.name, table.count]));
    if (this.isBuilt) { this.buildSide(); this.showSlider(); this.showMomentText(); }
    if (this.view && this.state.view === "table" && this.isBuilt) this.view.show();
    // Retention may have removed the moment shown.
    if (this.at !== null && this.at < this.oldest) this.setAt(null);
  }

  buildSide() {
    const list = byId("tables");
    const names = this.tables.map((table) => table.name);
    if (!this.isBuilt || names.join("\n") !== this.sideNames) {
      this.sideNames = names.join("\n");
      const focused = list.contains(document.activeElement) ? document.activeElement.dataset.table : null;
      this.sideItems = new Map();
      list.replaceChildren(...names.map((name) => {
        const number = make("span", { class: "count" });
        const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
        const spark = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        spark.setAttribute("viewBox", "0 0 60 16");
        spark.setAttribute("class", "spark");
        spark.setAttribute("aria-hidden", "true");
        spark.append(path);
        const button = make("button", { class: "side-item", data: { view: "table", table: name }, title: name,
          on: { click: () => this.go({ view: "table", table: name }) } }, make("span", { class: "name", text: name }), spark, number);
        this.sideItems.set(name, { number, path, button, spark });
        return make("li", {}, button);
      }));
      if (!names.length) list.append(make("li", { class: "note", text: "No table yet" }));
      if (focused !== null) this.sideItems.get(focused)?.button.focus();
    }
    if (!this.isBuilt) {
      byId("views").replaceChildren(...Object.entries(VIEWS).map(([view, [title]]) => make("li", {},
        make("button", { class: "side-item", data: { view }, on: { click: () => this.go({ view, table: "" }) } },
          make("span", { class: "name", text: title }), make("kbd", { class: "hint", text: title[0] })))));
      this.isBuilt = true;
    }
    for (const button of document.querySelectorAll("#side [data-view]")) {
      const isCurrent = button.dataset.view === this.state.view && (this.state.view !== "table" || button.dataset.table === this.state.table);
      if (isCurrent) button.setAttribute("aria-current", "page");
    }
    this.showCounts();
  }

  showCounts() {
    for (const [name, item] of this.sideItems ?? []) setText(item.number, count(this.counts.get(name) ?? 0));
  }

  /** Each second: the rates, and the sparks beside the tables. */
  tick() {
    const { changes, tables } = this.second;
    this.second = { changes: 0, tables: new Map() };
    setText(byId("rate"), changes ? `${count(changes)} changes/s` : "");
    for (const [name, item] of this.sideItems ?? []) {
      let rates = this.rates.get(name);
      if (!rates) this.rates.set(name, rates = []);
      rates.push(tables.get(name) ?? 0);
      if (rates.length > SPARK_SECONDS) rates.shift();
      const most = Math.max(4, ...rates);
      let d = "";
      rates.forEach((rate, i) => {
        if (!rate) return;
        const height = Math.max(1.5, (rate / most) * 15);
        const x = 60 - (rates.length - i) * 2;
        d += `M${x + 0.75} 16V${(16 - height).toFixed(1)}`;
      });
      if (item.d !== d) { item.d = d; item.path.setAttribute("d", d); }
      item.spark.setAttribute("class", tables.get(name) ? "spark busy" : "spark");
      item.button.title = tables.get(name) ? `${name}: ${plural(tables.get(name), "change")} in the last second` : name;
    }
    if (this.at !== null) this.showMomentText();
  }

  // ---- time --------------------------------------------------------------------------------------------------------

  /** Shows everything as of a seq; null is now. While a question is open, only the newest wish waits. */
  setAt(at) {
    if (at !== null && at >= this.seq) at = null;
    if (at !== null) at = Math.max(at, this.oldest);
    if (at === this.at) return;
    if (this.panel.isEditing && this.panel.editor.isChanged) { toast("Save or cancel the edit first.", true); this.showSlider(); return; }
    if (this.panel.isEditing) this.panel.cancel();
    this.at = at;
    this.atTime = null;
    this.remember();
    this.showMoment();
    this.loadMoment();
  }

  async loadMoment() {
    if (this.isAsking) { this.asksAgain = true; return; }
    this.isAsking = true;
    try {
      do {
        this.asksAgain = false;
        await this.view.open(this.state);
        if (this.asksAgain) continue;
        await this.loadOverview();
        if (this.asksAgain) continue;
        if (this.panel.isOpen) await this.panel.load();
      } while (this.asksAgain);
    } finally {
      this.isAsking = false;
    }
    announce(this.at === null ? "Shown as of now" : `Shown as of change ${count(this.at)}, ${moment(this.atTime)}`);
  }

  step(direction) {
    const from = this.at ?? this.seq;
    const next = from + direction;
    if (direction > 0 && this.at === null) return;
    this.setAt(next >= this.seq ? null : Math.max(this.oldest, next));
  }

  showMoment() {
    const isPast = this.at !== null;
    document.body.classList.toggle("is-past", isPast);
    byId("past").hidden = !isPast;
    byId("now").setAttribute("aria-pressed", String(!isPast));
    if (this.view?.insertButton) this.view.insertButton.disabled = isPast;
    this.showSlider();
    this.showMomentText();
  }

  showSlider() {
    const slider = byId("slider");
    const value = String(this.at ?? this.seq);
    if (slider.min !== String(this.oldest)) slider.min = String(this.oldest);
    if (slider.max !== String(this.seq)) slider.max = String(this.seq);
    if (slider.value !== value) slider.value = value;
    const share = this.seq > this.oldest ? ((this.at ?? this.seq) - this.oldest) / (this.seq - this.oldest) : 1;
    slider.style.setProperty("--share", `${(share * 100).toFixed(2)}%`);
    slider.setAttribute("aria-valuetext", this.at === null ? `now, change ${count(this.seq)}` : `change ${count(this.at)} of ${count(this.seq)}`);
    slider.disabled = this.seq <= this.oldest;
    byId("step-back").disabled = (this.at ?? this.seq) <= this.oldest;
    byId("step-on").disabled = this.at === null;
    setText(byId("moment"), this.at === null ? `change ${count(this.seq)}` : `${count(this.at)} of ${count(this.seq)}`);
    const oldest = byId("oldest");
    setText(oldest, this.oldestTime ? moment(this.oldestTime) : count(this.oldest));
    oldest.title = `The oldest moment of the log that is kept: change ${count(this.oldest)}`;
  }

  showMomentText() {
    if (this.at === null) return;
    const behind = this.seq - this.at;
    const when = this.atTime ? `${moment(this.atTime, { millis: true })}, ${ago(this.atTime)}` : "…";
    setText(byId("past-text"), `You see the past: ${when} · change ${count(this.at)}, ${plural(behind, "change")} before now`);
  }

  // ---- writing -----------------------------------------------------------------------------------------------------

  wrote(answer) { if (answer?.undo) this.putUndo(answer.undo); }

  putUndo(state) {
    for (const [name, word] of [["undo", "Undo"], ["redo", "Redo"]]) {
      const text = state[`${name}_text`];
      byId(name).disabled = !state[name] && !state[`can_${name}`];
      byId(name).title = `${text ? `${word}: ${text}` : word} (${name === "undo" ? "Ctrl+Z" : "Ctrl+Shift+Z"})`;
    }
  }

  async undo(name) {
    if (!this.canWrite || this.isUndoing) return;
    if (this.at !== null) { toast("Go back to now to undo.", true); return; }
    this.isUndoing = true;
    try {
      const answer = await send(`api/${name}`);
      this.wrote(answer);
      toast(answer.restored === 0 ? `There is nothing to ${name}.` : name === "undo" ? "Undone." : "Done again.");
      if (this.panel.isOpen && !this.panel.isEditing) this.panel.load();
    } catch (error) {
      toast(error instanceof ServerError ? error.message : "The server did not answer.", true);
    } finally {
      this.isUndoing = false;
    }
  }

  // ---- keys --------------------------------------------------------------------------------------------------------

  putKeys() {
    byId("keys").replaceChildren(...[...KEYS, ...(this.canWrite ? WRITE_KEYS : [])].flatMap(([keys, what]) => [
      make("dt", {}, ...keys.split(/ {2,}/).map((key) => make("kbd", { text: key }))), make("dd", { text: what })]));
  }

  listen() {
    byId("slider").addEventListener("input", (event) => {
      const value = Number(event.target.value);
      this.setAt(value >= Number(event.target.max) ? null : value);
    });
    byId("step-back").addEventListener("click", () => this.step(-1));
    byId("step-on").addEventListener("click", () => this.step(1));
    byId("now").addEventListener("click", () => this.setAt(null));
    byId("past-now").addEventListener("click", () => this.setAt(null));
    byId("help-button").addEventListener("click", () => byId("help").showModal());
    byId("undo").addEventListener("click", () => this.undo("undo"));
    byId("redo").addEventListener("click", () => this.undo("redo"));
    for (const dialog of document.querySelectorAll("dialog")) {
      dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close("no"); });
    }
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("popstate", () => {
      const { at } = this;
      this.readHash();
      this.panel.close();
      this.show();
      if (this.state.key !== null) this.openDocument(this.state.table, this.state.key);
      if (at !== this.at) { this.showMoment(); this.loadMoment(); }
    });
    document.addEventListener("visibilitychange", () => {
      if (document.hidden || !this.view) return;
      this.loadOverview();
      if (this.at === null && this.state.view === "table") this.view.load();
    });
  }

  key(event) {
    if (event.defaultPrevented || document.querySelector("dialog[open]") || !this.view) return;
    const isTyping = takesText(event.target);
    if (event.key === "Escape") {
      if (this.panel.isOpen && !isTyping) { event.preventDefault(); this.closePanel(); }
      return;
    }
    if (isTyping || event.altKey) return;
    if (event.ctrlKey || event.metaKey) {
      if (!this.canWrite) return;
      const key = event.key.toLowerCase();
      const name = key === "z" ? (event.shiftKey ? "redo" : "undo") : key === "y" && !event.shiftKey ? "redo" : null;
      if (name) { event.preventDefault(); this.undo(name); }
      return;
    }
    const isShifted = event.shiftKey && (event.code === "Comma" || event.code === "Period");
    if (isShifted && this.panel.isOpen) {
      event.preventDefault();
      this.panel.step(event.code === "Comma" ? -1 : 1);
      return;
    }
    const act = this.actions()[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) { event.preventDefault(); act(); }
  }

  actions() {
    const toView = (view) => { this.go({ view, table: "" }); this.view.root.querySelector("h1").focus({ preventScroll: true }); };
    return {
      "/": () => { const input = byId("search") ?? byId("origin-filter"); input?.focus(); input?.select(); },
      "?": () => byId("help").showModal(),
      ",": () => this.step(-1),
      ".": () => this.step(1),
      n: () => this.setAt(null),
      g: () => this.view.focusGoto?.(),
      p: () => this.view.pause?.(),
      t: () => (document.querySelector("#tables [aria-current]") ?? document.querySelector("#tables button"))?.focus(),
      l: () => toView("log"),
      f: () => toView("feeds"),
      c: () => toView("consumers"),
      s: () => toView("storage"),
      i: () => { if (this.canWrite && this.state.view === "table") this.panel.insert(this.state.table); },
      e: () => { if (this.panel.isOpen) this.panel.edit(); },
      Delete: () => { if (this.panel.isOpen) this.panel.remove(); },
      ArrowDown: () => this.besideSide(1),
      ArrowUp: () => this.besideSide(-1),
    };
  }

  /** Arrows in the list at the side. */
  besideSide(direction) {
    const buttons = [...document.querySelectorAll("#side button")];
    const place = buttons.indexOf(document.activeElement);
    if (place >= 0) buttons[place + direction]?.focus();
  }
}

const inspector = new Inspector();
inspector.start();
