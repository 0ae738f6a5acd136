// Grid: a table of any length of which only the visible rows are elements. It follows the grid pattern of ARIA.
//
// Rows are known by their index and their key. An element belongs to a key, so the focus stays with a document while rows
// come and go around it. The grid asks its source for rows and never fetches.

import { make } from "./dom.js";

const OVERSCAN = 6;
// Browsers limit the height of an element (Chromium: 33,554,428 px). Above this height the scroll position is scaled.
const MOST_PIXELS = 12_000_000;
const MARK_MS = 1200;

export class Grid {
  /**
   * @param host The element that the grid fills.
   * @param options label: its name. row(i): {key, cells...} or undefined while it is not loaded. text(row, column) and
   *   type(row, column): what a cell shows, and its style class; a column with put(cell, row) fills the cell itself. rowClass(row): a class of the row, or "".
   *   sign(row): the sign in the first cell. onSort(column), onOpen(row, index), onMove(row, index), onScroll().
   */
  constructor(host, options) {
    this.options = { rowHeight: 30, rowClass: () => "", type: () => "", onScroll() {}, onMove() {}, onOpen() {}, ...options };
    this.rowHeight = this.options.rowHeight;
    this.columns = [];
    this.total = 0;
    this.top = 0;
    this.active = { index: 0, column: 0, key: null };
    this.selected = null;
    this.drawn = new Map();
    this.free = [];
    this.marked = new Map();
    this.flashes = true;
    this.frame = 0;
    this.headRow = make("div", { class: "grid-row grid-head", role: "row", "aria-rowindex": "1" });
    this.body = make("div", { class: "grid-body", role: "rowgroup" });
    this.root = make("div", { class: "grid", role: "grid", "aria-label": options.label, "aria-readonly": "true" },
      make("div", { class: "grid-top", role: "rowgroup" }, this.headRow), this.body);
    host.append(this.root);
    this.root.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.root.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("click", (event) => this.click(event));
    this.root.addEventListener("focusin", (event) => this.focused(event));
    this.root.addEventListener("mouseover", (event) => this.hover(event));
    this.resizing = new ResizeObserver(() => { this.measure(); this.draw(); this.options.onScroll(); });
    this.resizing.observe(this.root);
  }

  close() {
    this.resizing.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.sweeping);
    this.root.remove();
  }

  // ---- size and position -------------------------------------------------------------------------------------------

  measure() {
    this.viewHeight = Math.max(0, this.root.clientHeight - this.headRow.offsetHeight);
    this.virtualHeight = this.total * this.rowHeight;
    this.height = Math.min(this.virtualHeight, MOST_PIXELS);
    this.mostTop = Math.max(0, this.virtualHeight - this.viewHeight);
    this.mostScroll = Math.max(0, this.height - this.viewHeight);
  }

  get firstIndex() { return Math.max(0, Math.min(this.total - 1, Math.floor(this.top / this.rowHeight))); }
  get visibleRows() { return Math.max(1, Math.ceil((this.viewHeight || 300) / this.rowHeight)); }

  toScroll(top) { return this.mostTop > 0 ? top * (this.mostScroll / this.mostTop) : 0; }

  setTop(top) {
    this.top = Math.max(0, Math.min(this.mostTop ?? 0, top));
    this.expected = Math.round(this.toScroll(this.top));
    if (Math.abs(this.root.scrollTop - this.expected) >= 1) this.root.scrollTop = this.expected;
  }

  scrolled() {
    const now = this.root.scrollTop;
    // A scroll event that our own `setTop` made has nothing new.
    if (this.expected === undefined || Math.abs(now - this.expected) > 1) {
      this.top = this.mostScroll > 0 ? now * (this.mostTop / this.mostScroll) : 0;
      this.expected = undefined;
    }
    this.draw();
    this.options.onScroll();
  }

  wheel(event) {
    // Where the position is scaled, one turn of the wheel would skip rows.
    if (this.height === this.virtualHeight || event.ctrlKey || event.shiftKey || !event.deltaY) return;
    event.preventDefault();
    const pixels = event.deltaMode === 1 ? event.deltaY * this.rowHeight : event.deltaMode === 2 ? event.deltaY * this.viewHeight : event.deltaY;
    this.setTop(this.top + pixels);
    this.draw();
    this.options.onScroll();
  }

  /** Rows have come (or gone) above what is visible: everything stays at its pixel. */
  shift(rows, total) {
    this.setTotal(total);
    if (!rows) return;
    this.setTop(this.top + rows * this.rowHeight);
    if (this.active.index >= 0) this.active.index = Math.max(0, this.active.index + rows);
  }

  setTotal(total) {
    this.total = total;
    this.root.setAttribute("aria-rowcount", String(total + 1));
    this.measure();
    this.body.style.height = `${this.height}px`;
    if (this.top > this.mostTop) this.setTop(this.mostTop);
    if (this.active.index >= total) this.active.index = Math.max(0, total - 1);
  }

  toTop() {
    this.setTop(0);
    // The focus stays in the titles, where the order was chosen.
    this.active = { index: Math.min(0, this.active.index), column: this.active.column, key: null };
  }

  // ---- columns -----------------------------------------------------------------------------------------------------

  /** columns: [{id, label, width, align, sort: "ascending" | "descending" | "none" | undefined}]. */
  setColumns(columns) {
    const hadHead = this.headRow.contains(document.activeElement);
    this.columns = columns;
    this.root.setAttribute("aria-colcount", String(columns.length));
    this.headRow.replaceChildren(...columns.map((column, index) => {
      const cell = make("div", {
        class: `cell head ${column.align === "end" ? "end" : ""}`, role: "columnheader", tabindex: "-1",
        "aria-colindex": String(index + 1), "aria-sort": column.sort, title: column.title ?? column.label,
      }, make("span", { class: "label", text: column.label }));
      if (column.sort) {
        cell.classList.add("sortable");
        cell.append(make("span", { class: "arrow", "aria-hidden": "true",
          text: column.sort === "ascending" ? "↑" : column.sort === "descending" ? "↓" : "" }));
      }
      cell.append(make("span", { class: "grip", "aria-hidden": "true", on: { pointerdown: (event) => this.resize(event, index) } }));
      cell.style.width = `${column.width}px`;
      return cell;
    }));
    const width = columns.reduce((sum, column) => sum + column.width, 0);
    this.headRow.style.minWidth = `${width}px`;
    this.body.style.minWidth = `${width}px`;
    for (const element of [...this.drawn.values(), ...this.free]) element.remove();
    this.drawn.clear();
    this.free = [];
    this.active.column = Math.min(this.active.column, Math.max(0, columns.length - 1));
    this.measure();
    this.draw();
    if (hadHead) this.focusActive();
  }

  resize(event, index) {
    event.preventDefault();
    event.stopPropagation();
    const column = this.columns[index];
    const from = event.clientX - column.width;
    const move = (moved) => {
      column.width = Math.max(48, Math.min(900, moved.clientX - from));
      column.isSized = true;
      for (const row of [this.headRow, ...this.drawn.values(), ...this.free]) row.children[index].style.width = `${column.width}px`;
      const width = this.columns.reduce((sum, each) => sum + each.width, 0);
      this.headRow.style.minWidth = this.body.style.minWidth = `${width}px`;
    };
    const end = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", end); };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  }

  // ---- drawing -----------------------------------------------------------------------------------------------------

  /** Draws with the next frame. Many calls draw once. */
  soon() {
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  newRow() {
    const row = make("div", { class: "grid-row", role: "row" });
    row.texts = [];
    row.types = [];
    this.columns.forEach((column, index) => {
      const cell = make("div", { class: "cell", role: "gridcell", tabindex: "-1", "aria-colindex": String(index + 1) });
      cell.style.width = `${column.width}px`;
      row.append(cell);
    });
    this.body.append(row);
    return row;
  }

  draw() {
    if (!this.columns.length || this.viewHeight === undefined) return;
    const hadFocus = this.body.contains(document.activeElement);
    const first = Math.max(0, Math.floor(this.top / this.rowHeight) - OVERSCAN);
    const last = Math.min(this.total, Math.ceil((this.top + this.viewHeight) / this.rowHeight) + OVERSCAN);
    const wanted = new Map();
    for (let index = first; index < last; index++) this.want(wanted, index);
    if (hadFocus) {
      const at = wanted.get(this.active.key);
      if (at !== undefined) this.active.index = at;
      else if (this.active.index < first || this.active.index >= last) this.want(wanted, this.active.index);
    }
    for (const [key, element] of this.drawn) {
      if (wanted.has(key)) continue;
      this.drawn.delete(key);
      element.classList.add("away");
      this.free.push(element);
    }
    const base = this.root.scrollTop - this.top;
    for (const [key, index] of wanted) {
      let element = this.drawn.get(key);
      let isSame = true;
      if (!element) {
        isSame = false;
        element = this.free.pop() ?? this.newRow();
        element.classList.remove("away");
        this.drawn.set(key, element);
      }
      this.fill(element, index, isSame);
      const place = Math.round(base + index * this.rowHeight);
      if (element.place !== place) {
        element.place = place;
        element.style.transform = `translateY(${place}px)`;
      }
    }
    if (this.free.length > 60) for (const element of this.free.splice(60)) element.remove();
    this.rove();
    if (hadFocus && !this.isActive(document.activeElement)) this.focusActive();
  }

  want(wanted, index) {
    if (index < 0 || index >= this.total) return;
    const row = this.options.row(index);
    // While old and new rows meet, one key may be at two places. The first place is drawn.
    if (row && !wanted.has(row.key)) wanted.set(row.key, index);
    else wanted.set(`\u0000${index}`, index);
  }

  fill(element, index, isSame) {
    const row = this.options.row(index);
    if (element.index !== index) {
      element.index = index;
      element.setAttribute("aria-rowindex", String(index + 2));
      element.classList.toggle("odd", index % 2 === 1);
    }
    const style = row ? this.options.rowClass(row) : "waiting";
    if (element.style_ !== style) {
      if (element.style_) element.classList.remove(...element.style_.split(" "));
      if (style) element.classList.add(...style.split(" "));
      element.style_ = style;
    }
    const isSelected = Boolean(row) && row.key === this.selected;
    if (element.isSelected !== isSelected) {
      element.isSelected = isSelected;
      element.setAttribute("aria-selected", String(isSelected));
    }
    for (let i = 0; i < this.columns.length; i++) {
      const text = row ? this.options.text(row, this.columns[i]) : "";
      const type = row ? this.options.type(row, this.columns[i]) : "";
      const cell = element.children[i];
      if (element.texts[i] !== text) {
        if (row && this.columns[i].put) this.columns[i].put(cell, row);
        else cell.textContent = text;
        if (isSame && this.flashes && row && !element.wasWaiting && !this.columns[i].isQuiet) this.mark(cell);
        element.texts[i] = text;
      }
      if (!isSame) this.unmark(cell);
      if (element.types[i] !== type) {
        if (element.types[i]) cell.classList.remove(...element.types[i].split(" "));
        if (type) cell.classList.add(...type.split(" "));
        element.types[i] = type;
      }
    }
    element.wasWaiting = !row;
  }

  /** Marks a cell as changed for a moment. */
  mark(cell) {
    cell.classList.add("changed");
    this.marked.set(cell, performance.now() + MARK_MS);
    this.sweeping ??= setTimeout(() => this.sweep(), MARK_MS);
  }

  unmark(cell) {
    if (this.marked.delete(cell)) cell.classList.remove("changed");
  }

  sweep() {
    this.sweeping = null;
    const now = performance.now();
    for (const [cell, until] of this.marked) if (until <= now) this.unmark(cell);
    if (this.marked.size) this.sweeping = setTimeout(() => this.sweep(), 200);
  }

  // ---- focus and keys ----------------------------------------------------------------------------------------------

  activeCell() {
    if (this.active.index < 0) return this.headRow.children[this.active.column];
    for (const element of this.drawn.values()) if (element.index === this.active.index) return element.children[this.active.column];
    return null;
  }

  isActive(element) { return element !== null && element === this.activeCell(); }

  /** One cell of the grid is in the order of the Tab key. */
  rove() {
    let cell = this.activeCell();
    if (!cell && this.drawn.size) {
      // The active row is scrolled away: the first visible row takes its place in the order of Tab.
      for (const element of this.drawn.values()) if (element.index === this.firstIndex) cell = element.children[this.active.column];
    }
    if (cell === this.tabbable) return;
    if (this.tabbable) this.tabbable.tabIndex = -1;
    if (cell) cell.tabIndex = 0;
    this.tabbable = cell;
  }

  focusActive() {
    const cell = this.activeCell();
    if (cell) cell.focus({ preventScroll: true });
  }

  focus() {
    if (this.active.index >= this.total && this.total) this.active.index = this.total - 1;
    this.moveTo(this.active.index, this.active.column);
  }

  focused(event) {
    const cell = event.target.closest(".cell");
    if (!cell) return;
    const element = cell.parentElement;
    const column = [...element.children].indexOf(cell);
    if (element === this.headRow) this.active = { index: -1, column, key: null };
    else this.active = { index: element.index, column, key: this.options.row(element.index)?.key ?? null };
    this.rove();
  }

  /** Makes a cell active: scrolls to it and gives it the focus. Index -1 is the header. */
  moveTo(index, column) {
    index = Math.max(-1, Math.min(this.total - 1, index));
    column = Math.max(0, Math.min(this.columns.length - 1, column));
    const isOther = index !== this.active.index;
    this.active = { index, column, key: index >= 0 ? this.options.row(index)?.key ?? null : null };
    if (index >= 0) {
      const y = index * this.rowHeight;
      if (y < this.top) this.setTop(y);
      else if (y + this.rowHeight > this.top + this.viewHeight) this.setTop(y + this.rowHeight - this.viewHeight);
    }
    this.draw();
    this.focusActive();
    this.sideways();
    this.options.onScroll();
    if (isOther && index >= 0) this.options.onMove(this.options.row(index), index);
  }

  sideways() {
    const cell = this.activeCell();
    if (!cell) return;
    const left = cell.offsetLeft;
    if (left < this.root.scrollLeft) this.root.scrollLeft = left;
    else if (left + cell.offsetWidth > this.root.scrollLeft + this.root.clientWidth) {
      this.root.scrollLeft = Math.min(left, left + cell.offsetWidth - this.root.clientWidth);
    }
  }

  key(event) {
    if (event.altKey || event.metaKey || !event.target.closest(".cell")) return;
    const { index, column } = this.active;
    const page = Math.max(1, this.visibleRows - 2);
    const corner = event.ctrlKey;
    const moves = {
      ArrowUp: () => this.moveTo(index - 1, column),
      ArrowDown: () => this.moveTo(index + 1, column),
      ArrowLeft: () => this.moveTo(index, column - 1),
      ArrowRight: () => this.moveTo(index, column + 1),
      Home: () => (corner ? this.moveTo(0, 0) : this.moveTo(index, 0)),
      End: () => (corner ? this.moveTo(this.total - 1, this.columns.length - 1) : this.moveTo(index, this.columns.length - 1)),
      PageUp: () => this.moveTo(Math.max(0, index - page), column),
      PageDown: () => this.moveTo(index + page, column),
      Enter: () => this.act(index, column),
      " ": () => this.act(index, column),
    };
    if (!Object.hasOwn(moves, event.key)) return;
    if (corner && !["Home", "End"].includes(event.key)) return;
    event.preventDefault();
    moves[event.key]();
  }

  act(index, column) {
    if (index < 0) {
      if (this.columns[column]?.sort) this.options.onSort(this.columns[column]);
      return;
    }
    const row = this.options.row(index);
    if (row) this.options.onOpen(row, index);
  }

  /** A text that is cut off is shown whole beside the pointer. */
  hover(event) {
    const cell = event.target.closest(".grid-body .cell");
    if (cell) cell.title = cell.scrollWidth > cell.clientWidth ? cell.textContent : "";
  }

  click(event) {
    const cell = event.target.closest(".cell");
    if (!cell || event.target.classList.contains("grip")) return;
    // Selecting text in a cell is no wish to open it.
    if (!getSelection().isCollapsed && this.body.contains(getSelection().anchorNode)) return;
    cell.focus({ preventScroll: true });
    this.act(this.active.index, this.active.column);
  }
}
