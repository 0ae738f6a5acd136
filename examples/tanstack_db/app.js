// A to-do list over TanStack DB. The page draws what a live query gives; edits are shown at once, and kept by the server.
import { createCollection, createLiveQueryCollection } from "@tanstack/db";
import { reactdbCollection } from "./collection.js";

const todos = createCollection(reactdbCollection({ live: "live", url: "todos" }));
const sorted = createLiveQueryCollection(query => query.from({ todo: todos }).orderBy(({ todo }) => todo.text));

const list = document.getElementById("list"), text = document.getElementById("text");
sorted.subscribeChanges(() => list.replaceChildren(...sorted.toArray.map(todo => {
  const item = document.createElement("li");
  item.textContent = (todo.done ? "✓ " : "") + todo.text;
  item.onclick = () => todos.update(todo.id, draft => { draft.done = !draft.done; });
  item.oncontextmenu = event => { event.preventDefault(); todos.delete(todo.id); };
  return item;
})), { includeInitialState: true });
document.getElementById("add").onsubmit = event => {
  event.preventDefault();
  todos.insert({ id: crypto.randomUUID(), text: text.value, done: false });
  text.value = "";
};
Object.assign(window, { todos, createCollection, reactdbCollection }); // for the browser's console
