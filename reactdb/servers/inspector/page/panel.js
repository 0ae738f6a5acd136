// The panel beside the table: one document as a vertical list, its history with a diff of each step, and its editor.

import { ask, send, ServerError } from "./api.js";
import { changeLine, changeTable } from "./changes.js";
import { byId, make, setText, throttled, toast } from "./dom.js";
import { ago, count, full, indented, kindSign, moment, shownKey, typeOf } from "./format.js";

const MARK_MS = 1200;
const TYPES = { TIME: "time", BINARY: "bytes", decimal: "decimal", date: "date", uuid: "UUID", time: "time of day", timedelta: "duration" };

export class DocumentPanel {
  constructor(app) {
    this.app = app;
    this.root = byId("panel");
    this.reload = throttled(200, () => this.load());
    this.root.addEventListener("keydown", (event) => this.key(event));
  }

  get isOpen() { return !this.root.hidden; }
  get isEditing() { return Boolean(this.editor); }

  open(table, key, seq = null) {
    if (this.isEditing && !(this.table === table && this.documentKey === key) && this.editor.isChanged) {
      toast("Save or cancel the edit first.", true);
      this.editor.text.focus();
      return;
    }
    const isOther = this.table !== table || this.documentKey !== key || !this.isOpen;
    Object.assign(this, { table, documentKey: key, openStep: seq });
    if (isOther) {
      this.editor = null;
      this.answer = this.figures = null;
      this.build();
    }
    this.root.hidden = false;
    document.body.classList.add("with-panel");
    this.load();
  }

  /** Figures as a vertical list. They may be shown again and again: the same elements get the new values. */
  showFigures(crumb, title, columns, cells) {
    if (this.isEditing && this.editor.isChanged) return;
    if (!this.isOpen || this.documentKey !== null || this.figures !== columns || this.title.textContent !== String(title)) {
      Object.assign(this, { table: crumb, documentKey: null, openStep: null, answer: null, editor: null, figures: columns });
      this.build();
      this.actions.replaceChildren();
      setText(this.title, String(title));
      this.root.querySelector(".section-title").hidden = true;
      for (const column of columns) {
        this.fields.append(make("dt", { text: column.label }), make("dd", { class: column.class === "t-code" ? "t-code" : "" }));
      }
      this.root.hidden = false;
      document.body.classList.add("with-panel");
    }
    this.fields.querySelectorAll("dd").forEach((value, i) => setText(value, String(cells[columns[i].id] ?? "") || "–"));
  }

  close() {
    if (!this.isOpen) return;
    this.editor = null;
    this.root.hidden = true;
    this.answer = this.figures = null;
    document.body.classList.remove("with-panel");
    this.root.replaceChildren();
  }

  build() {
    const isKept = this.root.contains(document.activeElement);
    const { text } = shownKey(this.documentKey);
    this.title = make("h2", { text, tabindex: "-1", title: text });
    this.actions = make("div", { class: "actions" });
    if (this.app.canWrite) {
      this.editButton = make("button", { text: "Edit", title: "Edit (E)", on: { click: () => this.edit() } });
      this.deleteButton = make("button", { text: "Delete", class: "quiet", title: "Delete (Delete)", on: { click: () => this.remove() } });
      this.actions.append(this.editButton, this.deleteButton);
    }
    this.note = make("p", { class: "note", hidden: true });
    this.fields = make("dl", { class: "fields" });
    this.shownFields = new Map();
    // All steps that were ever read, by seq: those after the moment shown too, so that one can step on.
    this.known = new Map();
    this.knowsNow = false;
    this.steps = make("ol", { class: "steps" });
    this.more = null;
    this.stepCount = make("span", { class: "summary" });
    this.earlier = make("button", { class: "quiet", text: "◂ Earlier step", title: "As of the step before (Shift+,)", on: { click: () => this.step(-1) } });
    this.later = make("button", { class: "quiet", text: "Later step ▸", title: "As of the step after (Shift+.)", on: { click: () => this.step(1) } });
    this.root.replaceChildren(
      make("header", {}, make("div", { class: "crumb" }, make("span", { text: this.table }),
        make("button", { class: "quiet round", "aria-label": "Close", title: "Close (Esc)", text: "×", on: { click: () => this.app.closePanel() } })),
      this.title, this.actions),
      make("div", { class: "panel-body" }, this.note, this.fields,
        make("div", { class: "section-title" }, make("h3", { text: "History" }), this.stepCount, make("span", { class: "space" }), this.earlier, this.later),
        this.steps));
    if (isKept) this.title.focus({ preventScroll: true });
  }

  /** Reads the document. If it is being read already, it is read once more. The promise waits for the newest answer. */
  load() {
    if (!this.isOpen || this.documentKey === null) return Promise.resolve();
    this.again = true;
    this.loading ??= this.readUntilNewest();
    return this.loading;
  }

  async readUntilNewest() {
    try {
      do {
        this.again = false;
        const { table, documentKey } = this;
        const at = this.app.at;
        try {
          const answer = await ask("api/document", { table, key: documentKey, at });
          if (at !== null && !this.knowsNow) await this.readLaterSteps(table, documentKey);
          if (table === this.table && documentKey === this.documentKey && this.isOpen) {
            if (at !== this.app.at) this.again = true;
            else this.put(answer);
          }
        } catch (error) {
          if (error instanceof ServerError && table === this.table && documentKey === this.documentKey && this.isOpen) this.say(error.message);
        }
      } while (this.again && this.isOpen);
    } finally {
      this.loading = null;
    }
  }

  async readLaterSteps(table, key) {
    const { known } = this;
    try {
      const answer = await ask("api/document", { table, key });
      for (const step of answer.history ?? []) known.set(step.seq, step);
    } catch { /* the table may be gone now */ }
    if (known === this.known) this.knowsNow = true;
  }

  say(text) {
    this.note.hidden = !text;
    setText(this.note, text ?? "");
  }

  put(answer) {
    const isFirst = this.answer === null;
    this.answer = answer;
    const isThere = answer.doc !== null && answer.doc !== undefined;
    const past = this.app.at !== null;
    this.say(isThere ? "" : answer.history?.length ? (past ? "It was deleted at this moment." : "This document is deleted.")
      : past ? "It did not exist at this moment." : "There is no such document.");
    if (this.editButton) {
      this.editButton.disabled = !isThere || past;
      this.deleteButton.disabled = !isThere || past;
    }
    if (!this.isEditing) this.putFields(isThere ? answer.doc : {}, answer.json, isFirst);
    this.putSteps(answer);
  }

  putFields(document, json, isFirst) {
    let types = {};
    try { types = JSON.parse(json ?? "{}"); } catch { /* shown without types */ }
    const names = Object.keys(document);
    for (const [name, shown] of this.shownFields) {
      if (!Object.hasOwn(document, name)) { shown.name.remove(); shown.value.remove(); this.shownFields.delete(name); }
    }
    let previous = null;
    for (const name of names) {
      const value = document[name];
      const text = value === null ? "null" : full(value);
      let shown = this.shownFields.get(name);
      if (!shown) {
        shown = { name: make("dt", { text: name }), value: make("dd"), text: null };
        shown.content = make("span");
        shown.type = make("small");
        this.shownFields.set(name, shown);
      }
      if (shown.text !== text) {
        if (!shown.content.isConnected) shown.value.append(shown.content, shown.type);
        shown.content.textContent = text;
        shown.value.className = `t-${typeOf(value)}`;
        if (!isFirst) {
          shown.value.classList.add("changed");
          clearTimeout(shown.timer);
          shown.timer = setTimeout(() => shown.value.classList.remove("changed"), MARK_MS);
        }
        shown.text = text;
      }
      setText(shown.type, typeName(Object.hasOwn(types, name) ? types[name] : undefined, value));
      const after = previous ? previous.value.nextSibling : this.fields.firstChild;
      if (after !== shown.name) this.fields.insertBefore(shown.name, after);
      if (shown.name.nextSibling !== shown.value) shown.name.after(shown.value);
      previous = shown;
    }
  }

  putSteps(answer) {
    for (const step of answer.history ?? []) this.known.set(step.seq, step);
    if (this.app.at === null) this.knowsNow = true;
    const steps = this.allSteps();
    setText(this.stepCount, `${count(steps.length)}${answer.more ? "+" : ""} ${steps.length === 1 ? "step" : "steps"}`);
    const kept = new Map([...this.steps.children].map((item) => [item.dataset.seq, item]));
    const hadFocus = this.steps.contains(document.activeElement) ? document.activeElement.closest("li")?.dataset.seq : null;
    const items = steps.map((step) => kept.get(String(step.seq)) ?? this.stepItem(step));
    // Items that stay are not moved: the focus stays in them.
    for (const item of [...this.steps.children]) if (item !== this.more && !items.includes(item)) item.remove();
    items.forEach((item, index) => { if (this.steps.children[index] !== item) this.steps.insertBefore(item, this.steps.children[index] ?? null); });
    if (hadFocus && !this.steps.contains(document.activeElement)) this.title.focus({ preventScroll: true });
    for (const item of items) {
      item.classList.toggle("current", this.app.at !== null && Number(item.dataset.seq) === this.currentStep()?.seq);
      item.classList.toggle("later", this.app.at !== null && Number(item.dataset.seq) > this.app.at);
      if (this.openStep !== null && Number(item.dataset.seq) === this.openStep) {
        item.querySelector("details").open = true;
        item.scrollIntoView({ block: "nearest" });
        this.openStep = null;
      }
    }
    if (answer.more && !this.more) {
      this.more = make("li", { class: "note", text: "Older steps are in the log." });
      this.steps.append(this.more);
    } else if (this.more && !answer.more) {
      this.more.remove();
      this.more = null;
    }
    const place = steps.indexOf(this.currentStep());
    this.earlier.disabled = place < 0 || place + 1 >= steps.length;
    this.later.disabled = this.app.at === null;
  }

  stepItem(step) {
    const line = make("summary", {},
      make("span", { class: `kind k-${step.kind}`, text: kindSign(step.kind), title: step.kind }),
      make("time", { datetime: step.time, text: moment(step.time), title: `${step.time}, ${ago(step.time)}` }),
      step.origin ? make("span", { class: "origin", text: step.origin }) : make("span"),
      make("span", { class: "step-line" }, ...changeLine(step, 4)));
    const details = make("details", {}, line);
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      details.append(make("div", { class: "step-detail" },
        make("p", { class: "note" }, `${step.kind} · change ${count(step.seq)} · ${moment(step.time, { millis: true })}`,
          step.origin ? ` · origin ${step.origin}` : ""),
        changeTable(step),
        make("button", { class: "quiet", text: "Show everything as of this step", on: { click: () => this.app.setAt(step.seq) } })));
    });
    return make("li", { data: { seq: String(step.seq) } }, details);
  }

  /** The steps that are known, the newest first. */
  allSteps() { return [...this.known.values()].sort((a, b) => b.seq - a.seq); }

  /** The step that made what is shown. */
  currentStep() { return this.allSteps().find((step) => this.app.at === null || step.seq <= this.app.at); }

  /** Goes to the step before or after, of this document. */
  step(direction) {
    const steps = this.allSteps();
    const current = this.currentStep();
    // Before its first step the document was not there.
    const place = current ? steps.indexOf(current) : steps.length;
    const target = steps[place - direction];
    if (target) this.app.setAt(target.seq);
    else if (direction > 0) this.app.setAt(null);
  }

  /** What one frame has gathered. */
  take(gathered) {
    if (!this.isOpen || this.app.at !== null || this.documentKey === null) return;
    const isConcerned = gathered.isResumed || (gathered.skipped > 0 && gathered.counts[this.table])
      || gathered.changes.some((change) => change.table === this.table && change.key === this.documentKey);
    if (isConcerned) this.reload();
  }

  key(event) {
    if (event.key === "Escape" && this.isEditing) {
      event.preventDefault();
      event.stopPropagation();
      this.cancel();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.isEditing) {
      event.preventDefault();
      this.save();
    }
  }

  // ---- writing -----------------------------------------------------------------------------------------------------

  edit() {
    if (!this.app.canWrite || this.app.at !== null || !this.answer?.doc || this.isEditing) return;
    this.showEditor(indented(this.answer.json), this.answer.history?.[0]?.seq ?? this.answer.doc_seq);
  }

  insert(table) {
    if (!this.app.canWrite) return;
    if (this.app.at !== null) { toast("Go back to now to insert a document.", true); return; }
    if (this.isEditing && this.editor.isChanged) { this.editor.text.focus(); return; }
    this.app.forgetSelection();
    Object.assign(this, { table, documentKey: null, openStep: null, answer: null, editor: null, figures: null });
    this.build();
    this.title.textContent = "New document";
    this.actions.replaceChildren();
    this.root.querySelector(".section-title").hidden = true;
    this.root.hidden = false;
    document.body.classList.add("with-panel");
    this.showEditor("{\n  \n}", undefined);
    this.editor.text.setSelectionRange(4, 4);
  }

  showEditor(text, expected) {
    const problem = make("p", { class: "field-problem", role: "alert", hidden: true, id: "edit-problem" });
    const area = make("textarea", { spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": "Document as JSON",
      "aria-describedby": "edit-problem", rows: String(Math.min(28, Math.max(6, text.split("\n").length + 1))) });
    area.value = text;
    const save = make("button", { class: "primary", on: { click: () => this.save() } }, "Save ", make("kbd", { text: "Ctrl Enter" }));
    const cancel = make("button", { class: "quiet", on: { click: () => this.cancel() } }, "Cancel ", make("kbd", { text: "Esc" }));
    const newest = make("button", { class: "quiet", text: "Load the newest version", hidden: true, on: { click: () => this.takeNewest() } });
    const root = make("div", { class: "editor" }, area, problem, make("div", { class: "actions" }, save, cancel, newest));
    this.editor = { root, text: area, problem, save, newest, expected, isChanged: false };
    area.addEventListener("input", () => { this.editor.isChanged = true; area.setAttribute("aria-invalid", "false"); });
    this.fields.hidden = true;
    this.fields.before(root);
    if (this.editButton) this.editButton.disabled = true;
    area.focus();
  }

  editProblem(text) {
    this.editor.problem.hidden = !text;
    setText(this.editor.problem, text ?? "");
    this.editor.text.setAttribute("aria-invalid", String(Boolean(text)));
  }

  async save() {
    const { editor, table, documentKey } = this;
    if (!editor || editor.isSaving) return;
    const text = editor.text.value;
    try { JSON.parse(text); } catch (error) { this.editProblem(`This is not JSON: ${error.message}.`); return; }
    editor.isSaving = editor.save.disabled = true;
    try {
      const answer = documentKey === null ? await send("api/insert", { table }, { doc: text })
        : await send("api/replace", { table, key: documentKey, ...(editor.expected === undefined ? {} : { expect_seq: editor.expected }) }, { doc: text });
      this.app.wrote(answer);
      if (this.editor !== editor) return;
      this.endEdit();
      if (documentKey === null) {
        toast("Inserted.");
        if (answer.key !== undefined && answer.key !== null) this.app.openDocument(table, answer.key);
        else this.app.closePanel();
      } else { toast("Saved."); this.load(); }
    } catch (error) {
      if (this.editor !== editor) return;
      this.editProblem(error instanceof ServerError ? error.message : "The server did not answer. Nothing is lost here: save again when it is back.");
      editor.newest.hidden = !(error instanceof ServerError && error.status === 409 && documentKey !== null);
    } finally {
      editor.isSaving = editor.save.disabled = false;
    }
  }

  async takeNewest() {
    await this.load();
    if (!this.editor || !this.answer) return;
    if (!this.answer.doc) { this.editProblem("The document is deleted now."); return; }
    this.editor.text.value = indented(this.answer.json);
    this.editor.expected = this.answer.history?.[0]?.seq;
    this.editor.newest.hidden = true;
    this.editor.isChanged = false;
    this.editProblem("");
    this.editor.text.focus();
  }

  endEdit() {
    this.editor.root.remove();
    this.editor = null;
    this.fields.hidden = false;
    if (this.editButton) this.editButton.disabled = false;
    if (this.documentKey !== null) this.editButton?.focus();
  }

  cancel() {
    this.endEdit();
    if (this.documentKey === null) this.app.closePanel();
    else if (this.answer) this.put(this.answer);
  }

  async remove() {
    if (!this.app.canWrite || this.app.at !== null || !this.answer?.doc || this.isEditing) return;
    const { table, documentKey } = this;
    if (!(await confirmDelete(table, documentKey))) return;
    try {
      this.app.wrote(await send("api/delete", { table, key: documentKey }));
      toast("Deleted. Ctrl+Z brings it back.");
      this.load();
    } catch (error) {
      toast(error.message, true);
    }
  }
}

function typeName(tagged, value) {
  if (tagged !== null && typeof tagged === "object" && !Array.isArray(tagged)) {
    const kind = tagged.$reql_type$ ?? tagged.$reactdb_type$;
    if (typeof kind === "string") return Object.hasOwn(TYPES, kind) ? TYPES[kind] : kind;
  }
  if (typeof tagged === "number" && typeof value === "string") return "integer";
  return { string: "text", number: "number", boolean: "true or false", list: "list", object: "object", null: "" }[typeOf(value)] ?? "";
}

function confirmDelete(table, key) {
  const dialog = byId("ask");
  setText(byId("ask-title"), "Delete this document?");
  setText(byId("ask-text"), `${shownKey(key).text} in ${table}. The deletion is a change in the log, and can be undone.`);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
