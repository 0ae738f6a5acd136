// The live table of a notebook, in the browser. The head of live_table.py has the messages.
//
// A view shows one page of rows. It asks for another page when the reader scrolls, one question at a time. Where the numbers of
// the messages have a gap, or no message comes, it asks again. Texts of documents are never read as HTML.

const ROW_PX = 28;
// Browsers limit the height of an element. Beyond this height, a pixel of the scroll bar is more than a row.
const MOST_PX = 15_000_000;
const ALIVE_MS = 20_000;
const ANSWER_MS = 5_000;
const MARKED_MS = 800;

function make(tag, name, parent) {
  const element = document.createElement(tag);
  element.className = name;
  parent.append(element);
  return element;
}

function render({ model, el }) {
  const view = `${Date.now().toString(36)}${Math.random().toString(36).slice(2)}`;
  const visible = model.get("height");
  const root = make("div", "reactdb-live", el);
  const scroller = make("div", "reactdb-live-scroller", root);
  const track = make("div", "reactdb-live-track", scroller);
  const pane = make("div", "reactdb-live-pane", track);
  const table = make("table", "", pane);
  const heads = make("tr", "", make("thead", "", table));
  const body = make("tbody", "", table);
  const caption = make("div", "reactdb-live-caption", root);
  caption.setAttribute("role", "status");
  scroller.tabIndex = 0;
  scroller.setAttribute("role", "region");
  scroller.setAttribute("aria-label", "live table");
  scroller.style.maxHeight = `${(visible + 1) * ROW_PX + 2}px`;

  let page = model.get("page");
  let number = null; // of the newest message; null before the first answer
  let wanted = page.offset; // the first row that the reader wants to see
  let isAsking = false;
  let isDead = false;
  let deadline = null;
  let drawn = []; // the key of each row on the screen

  function send(content) {
    try {
      model.send({ view, ...content });
    } catch {
      // A saved notebook has no kernel to send to.
      die();
      return;
    }
    deadline ??= setTimeout(die, ANSWER_MS);
  }

  function ask() {
    if (isAsking) return;
    isAsking = true;
    send({ kind: "ask", offset: wanted, count: visible });
  }

  function die() {
    deadline = null;
    isAsking = false;
    isDead = true;
    drawCaption();
  }

  function receive(message) {
    if (!message || message.view !== view) return;
    clearTimeout(deadline);
    deadline = null;
    isDead = false;
    if (message.kind === "page") {
      isAsking = false;
      number = message.number;
      const asked = wanted;
      page = message;
      draw();
      // The list may have become shorter. Or the reader has scrolled on meanwhile.
      if (asked > page.offset && asked > lastOffset()) wanted = page.offset;
      else if (asked !== page.offset) ask();
    } else if (message.kind === "changes") {
      if (message.number !== number + 1) {
        ask();
        return;
      }
      number = message.number;
      page.total = message.total;
      for (const [place, row] of Object.entries(message.rows)) page.rows[place] = row;
      page.rows.length = message.count;
      draw();
    } else if (message.kind === "alive" && message.number !== number) {
      isAsking = false;
      ask();
    } else {
      drawCaption();
    }
  }

  function lastOffset() {
    return Math.max(0, (page.total ?? 0) - visible);
  }

  function draw() {
    const columns = page.columns;
    while (heads.cells.length < columns.length) make("th", "", heads).scope = "col";
    while (heads.cells.length > columns.length) heads.lastChild.remove();
    columns.forEach((title, place) => {
      heads.cells[place].textContent = title;
      heads.cells[place].classList.toggle("reactdb-live-number", page.numbers.includes(place));
    });
    while (body.rows.length < page.rows.length) make("tr", "", body);
    while (body.rows.length > page.rows.length) body.lastChild.remove();
    table.setAttribute("aria-rowcount", page.total === null ? -1 : page.total + 1);
    page.rows.forEach(([key, texts], place) => drawRow(body.rows[place], place, key, texts));
    drawn.length = page.rows.length;
    track.style.height = `${Math.min(MOST_PX, ((page.total ?? page.rows.length) + 1) * ROW_PX)}px`;
    drawCaption();
  }

  function drawRow(row, place, key, texts) {
    const isSame = key !== null && drawn[place] === key;
    drawn[place] = key;
    row.setAttribute("aria-rowindex", page.offset + place + 2);
    row.classList.toggle("reactdb-live-odd", (page.offset + place) % 2 === 1);
    while (row.cells.length < texts.length) make("td", "", row);
    while (row.cells.length > texts.length) row.lastChild.remove();
    texts.forEach((text, column) => {
      const cell = row.cells[column];
      cell.classList.toggle("reactdb-live-number", page.numbers.includes(column));
      const isChanged = cell.textContent !== text;
      if (isChanged) {
        cell.textContent = text;
        cell.title = text.length > 40 ? text : "";
      }
      if (isChanged && isSame) mark(cell);
      else if (!isSame) unmark(cell);
    });
  }

  function mark(cell) {
    clearTimeout(cell.marked);
    cell.classList.add("reactdb-live-changed");
    cell.marked = setTimeout(() => unmark(cell), MARKED_MS);
  }

  function unmark(cell) {
    clearTimeout(cell.marked);
    cell.classList.remove("reactdb-live-changed");
  }

  function drawCaption() {
    const count = page.total === null ? `the first ${page.rows.length} documents` : `${page.total.toLocaleString("en")} documents`;
    let words = "● live";
    if (isDead) words = `○ not live: no kernel answers; rows as of ${page.at}`;
    else if (page.state === "failed") words = `○ not live: ${page.error}`;
    else if (page.state === "closed") words = `○ not live: closed; rows as of ${page.at}`;
    else if (number === null || page.state === "loading") words = "○ loading…";
    const text = `${words} · ${count}`;
    if (caption.textContent !== text) caption.textContent = text;
    root.classList.toggle("reactdb-live-dead", !words.startsWith("● "));
  }

  function scrolled() {
    const total = page.total ?? page.rows.length;
    const range = scroller.scrollHeight - scroller.clientHeight;
    const isScaled = (total + 1) * ROW_PX > MOST_PX;
    const place = isScaled
      ? Math.round((scroller.scrollTop / Math.max(1, range)) * lastOffset())
      : Math.round(scroller.scrollTop / ROW_PX);
    wanted = Math.max(0, Math.min(place, lastOffset()));
    if (wanted !== page.offset) ask();
  }

  function saved() {
    // Before the first answer, and without a kernel, the trait is all that there is.
    if (number === null || isDead) {
      page = model.get("page");
      draw();
    }
  }

  scroller.addEventListener("scroll", scrolled);
  model.on("msg:custom", receive);
  model.on("change:page", saved);
  const beat = setInterval(() => send({ kind: "alive" }), ALIVE_MS);
  draw();
  ask();

  return () => {
    clearInterval(beat);
    clearTimeout(deadline);
    model.off("msg:custom", receive);
    model.off("change:page", saved);
    try {
      model.send({ kind: "bye", view });
    } catch {
      // There is no kernel that would have to know.
    }
  };
}

export default { render };
