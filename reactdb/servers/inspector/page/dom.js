// Making and finding elements. Everything from the database is put in as text, never as markup.

export const byId = (id) => document.getElementById(id);

/** An element. `properties`: `class`, `text`, `on` (event handlers by name), `data`; any other name is an attribute. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Sets the text only where it differs, so that nothing is laid out anew without a reason. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Whether the element takes typed text, so that single keys belong to it. */
export function takesText(element) {
  if (!element || !element.matches) return false;
  return element.matches("textarea, select, [contenteditable], input:not([type=range]):not([type=checkbox])");
}

/** The function, called at most once per `ms`, and always a last time. */
export function throttled(ms, action) {
  let timer = null;
  let last = -Infinity;
  return () => {
    if (timer !== null) return;
    timer = setTimeout(() => {
      timer = null;
      last = performance.now();
      action();
    }, Math.max(0, last + ms - performance.now()));
  };
}

let ruler = null;

/** How wide the text is in the page's own font, in pixels. */
export function widthOf(text, style = "") {
  ruler ??= document.createElement("canvas").getContext("2d");
  const { fontSize, fontFamily } = getComputedStyle(document.body);
  ruler.font = `${style} ${fontSize} ${fontFamily}`;
  return ruler.measureText(text).width;
}

let announcedAt = -Infinity;
let announceTimer = null;

/** Says a sentence to a screen reader: at most one each three seconds, the newest. */
export function announce(text) {
  clearTimeout(announceTimer);
  announceTimer = setTimeout(() => {
    announcedAt = performance.now();
    byId("announcer").textContent = text;
  }, Math.max(50, announcedAt + 3000 - performance.now()));
}

let toastTimer = null;

/** Shows a short sentence above the line of time for some seconds. */
export function toast(text, isError = false) {
  const element = byId("toast");
  element.textContent = text;
  element.classList.toggle("error", isError);
  element.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { element.hidden = true; }, isError ? 8000 : 3500);
}
