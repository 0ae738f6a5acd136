// A to-do list in PouchDB, in the browser's own storage: a copy of a desktop's or an edge's file of reactdb.
const server = new URLSearchParams(location.search).get("server") ?? "http://127.0.0.1:5984";

const db = new PouchDB("todo");
const list = document.getElementById("list"), text = document.getElementById("text");

const sync = db.sync(server + "/todos", { live: true, retry: true, back_off_function: () => 1000 });
db.changes({ live: true, since: "now" }).on("change", draw);

async function draw() {
  const { rows } = await db.allDocs({ include_docs: true });
  list.replaceChildren(...rows.map(({ doc }) => {
    const item = document.createElement("li");
    item.textContent = (doc.done ? "✓ " : "") + doc.text;
    item.onclick = () => db.put({ ...doc, done: !doc.done });
    item.oncontextmenu = event => { event.preventDefault(); db.remove(doc); };
    return item;
  }));
}
document.getElementById("add").onsubmit = event => {
  event.preventDefault();
  db.post({ text: text.value, done: false });
  text.value = "";
};
draw();
