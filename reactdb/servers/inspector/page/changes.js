// Showing what a change did: a list of fields with the old and the new value.

import { make } from "./dom.js";
import { brief, differences, full, typeOf } from "./format.js";

const MOST_FIELDS = 200;

/** One line: `delay: 5 → 12, state: "scheduled" → "departed"`, as an array of elements. */
export function changeLine(change, most = 6) {
  if (change.cut) return [make("span", { class: "note", text: "A large document: open it to see what changed" })];
  const parts = [];
  if (change.old === null || change.new === null) {
    const document = change.new ?? change.old ?? {};
    const names = Object.keys(document);
    for (const name of names.slice(0, most + 2)) {
      parts.push(make("span", { class: "step-field" }, make("b", { text: name }), " ",
        make("span", { class: change.new === null ? "old" : "whole", text: brief(document[name], 60) })));
    }
    if (names.length > most + 2) parts.push(make("span", { class: "note", text: ` and ${names.length - most - 2} more` }));
    return parts;
  }
  const found = differences(change.old, change.new);
  for (const { path, old, new: after } of found.slice(0, most)) {
    parts.push(make("span", { class: "step-field" },
      make("b", { text: path || "document" }), " ",
      old === undefined ? null : make("span", { class: "old", text: brief(old, 60) }),
      old === undefined ? null : " → ",
      after === undefined ? make("i", { text: "removed" }) : make("span", { class: "new", text: brief(after, 60) })));
  }
  if (found.length > most) parts.push(make("span", { class: "note", text: ` and ${found.length - most} more` }));
  if (!found.length) parts.push(make("span", { class: "note", text: "nothing differs" }));
  return parts;
}

/** The difference as text, to compare two lines and for `title`. */
export function changeText(change) {
  if (change.cut) return "a large document";
  if (change.old === null || change.new === null) return brief(change.new ?? change.old, 400);
  return differences(change.old, change.new)
    .map(({ path, old, new: after }) => `${path}: ${old === undefined ? "" : brief(old, 60) + " → "}${after === undefined ? "removed" : brief(after, 60)}`)
    .join(", ");
}

/** The whole difference, a line for each field: − old, + new. */
export function changeTable(change) {
  if (change.cut) return make("p", { class: "note", text: "This step is too large to be shown here." });
  const table = make("div", { class: "diff" });
  const found = differences(change.old ?? {}, change.new ?? {});
  for (const { path, old, new: after } of found.slice(0, MOST_FIELDS)) {
    table.append(make("div", { class: "diff-field", text: path || "document" }));
    const values = make("div", { class: "diff-values" });
    if (old !== undefined) values.append(make("div", { class: `diff-old t-${typeOf(old)}`, text: full(old) }));
    if (after !== undefined) values.append(make("div", { class: `diff-new t-${typeOf(after)}`, text: full(after) }));
    table.append(values);
  }
  if (found.length > MOST_FIELDS) table.append(make("p", { class: "note", text: `and ${found.length - MOST_FIELDS} more fields` }));
  if (!found.length) table.append(make("p", { class: "note", text: "No field differs." }));
  return table;
}
