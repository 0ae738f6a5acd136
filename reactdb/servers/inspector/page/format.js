// Values, numbers, times and differences as text.

const whole = new Intl.NumberFormat("en-US");
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const own = (value, name) => (Object.hasOwn(value, name) ? value[name] : undefined);

export const count = (number) => whole.format(number);
export const plural = (number, one, many = one + "s") => `${count(number)} ${number === 1 ? one : many}`;

/** One word for the kind of a value; the style sheet has a class for each. */
export function typeOf(value) {
  if (value === undefined) return "none";
  if (value === null) return "null";
  if (Array.isArray(value)) return "list";
  return typeof value;
}

/** The value on one line, at most `most` characters. */
export function brief(value, most = 300) {
  if (value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const line = text.length > most ? text.slice(0, most) + "…" : text;
  return typeof value === "string" ? line.replace(/[\r\n\t\u2028\u2029]+/g, " ⏎ ") : line;
}

/** The whole value, objects and arrays over several lines. */
export function full(value) {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** A key as the reader sees it, and its type. The server writes a key that is not a text as `=` and its JSON: `=1`. */
export function shownKey(key) {
  if (!key?.startsWith("=")) return { text: key ?? "", type: "string" };
  try {
    const value = JSON.parse(key.replace(/^=+/, ""));
    // Of a text that looks like such a spelling, the server doubles the sign.
    if (typeof value !== "string") return { text: key.slice(1), type: key.startsWith("==") ? "string" : typeOf(value) };
  } catch { /* a text that begins with the sign */ }
  return { text: key, type: "string" };
}

export function bytes(number) {
  if (number === undefined || number === null) return "–";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) { number /= 1000; unit += 1; }
  return `${unit && number < 100 ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
}

const clockForm = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayForm = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const yearForm = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** A moment in the reader's own time zone; the day is left out where it is today. */
export function moment(iso, { millis = false } = {}) {
  if (!iso) return "";
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return String(iso);
  const now = new Date();
  let text = clockForm.format(date);
  if (millis) text += "." + String(date.getMilliseconds()).padStart(3, "0");
  if (date.toDateString() === now.toDateString()) return text;
  return `${(date.getFullYear() === now.getFullYear() ? dayForm : yearForm).format(date)} ${text}`;
}

/** How long ago, in one word or two. */
export function ago(iso) {
  const seconds = (Date.now() - new Date(iso).getTime()) / 1000;
  if (!(seconds >= 0)) return "just now";
  if (seconds < 2) return "just now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

/** What differs: [{path, old, new}]; a field that is missing on one side is undefined there. Arrays are compared whole. */
export function differences(before, after, path = "") {
  if (isObject(before) && isObject(after)) {
    const found = [];
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      found.push(...differences(own(before, name), own(after, name), path ? `${path}.${name}` : name));
    }
    return found;
  }
  if (before === after || JSON.stringify(before) === JSON.stringify(after)) return [];
  return [{ path, old: before, new: after }];
}

/** The sign and the word of a change's kind. */
export function kindSign(kind) {
  if (kind === "insert") return "+";
  if (kind === "delete" || kind === "expire") return "−";
  return "~";
}

/** JSON text with line breaks. The text is not parsed, so numbers keep all their digits. */
export function indented(text) {
  let result = "";
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === '"') {
      const start = i;
      for (i++; i < text.length && text[i] !== '"'; i++) if (text[i] === "\\") i++;
      result += text.slice(start, i + 1);
    } else if (character === "{" || character === "[") {
      const rest = text.slice(i + 1).match(/^\s*([}\]])/);
      if (rest) { result += character + rest[1]; i += rest[0].length; continue; }
      depth++;
      result += character + line();
    } else if (character === "}" || character === "]") {
      depth--;
      result += line() + character;
    } else if (character === ",") result += "," + line();
    else if (character === ":") result += ": ";
    else if (!/\s/.test(character)) result += character;
  }
  return result;
}

/** A field's name as the condition language reads it. */
export function fieldName(name) {
  const isWord = /^[^\s().=!<>"']+$/.test(name) && !["and", "or", "not"].includes(name);
  return isWord ? name : JSON.stringify(name);
}
