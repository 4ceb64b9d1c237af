// The board: a position drawn in cells, to look at, to aim at, and to move on.
//
// The poisoned corner is at the top left. Each cell is a button in a grid: the arrow keys go from
// cell to cell, Enter and Space take. Cells that are gone leave their places, so nothing moves.

import { drawn, element } from "./dom.js";
import { areaOf, has, same, take, takes } from "./rules.js";

const KEYS = {
  ArrowUp: ([row, column]) => [row - 1, column],
  ArrowDown: ([row, column]) => [row + 1, column],
  ArrowLeft: ([row, column]) => [row, column - 1],
  ArrowRight: ([row, column]) => [row, column + 1],
};

/** Where a key leads from a cell; null if it is no key for that, or there is no cell. */
export function keyLeadsTo(event, rows, cell) {
  if (event.altKey || event.metaKey) return null;
  let to = KEYS[event.key]?.(cell) ?? null;
  if (event.key === "Home") to = event.ctrlKey ? [1, 1] : [cell[0], 1];
  if (event.key === "End") to = event.ctrlKey ? [rows.length, rows.at(-1)] : [cell[0], rows[cell[0] - 1]];
  return to && has(rows, to) ? to : null;
}

/** The drawing on the poisoned cell. */
function skull() {
  return drawn(
    "svg",
    { viewBox: "0 0 24 24", class: "skull", "aria-hidden": "true" },
    drawn("path", {
      d: "M12 3a8 8 0 0 0-8 8c0 2.700 1.300 4.600 3 5.800V19a1.500 1.500 0 0 0 1.500 1.500h7A1.500 1.500 0 0 0 17 19v-2.200c1.700-1.200 3-3.100 3-5.800a8 8 0 0 0-8-8z",
    }),
    drawn("circle", { cx: 8.7, cy: 11.3, r: 2, class: "hole" }),
    drawn("circle", { cx: 15.3, cy: 11.3, r: 2, class: "hole" }),
    drawn("path", { d: "M12 13.800l-1 2.200h2zM10.300 18.200v2.300M13.700 18.200v2.300", class: "hole teeth" }),
  );
}

export class Board {
  #place;
  #grid;
  #buttons = [];
  #start = [];
  #rows = [];
  #focus = [1, 1];
  #playable = false;
  #onMove;
  #onAim;

  /**
   * `place` becomes the board. `onMove` is told of each move that is made on it, `onAim` of the cell
   * that is pointed at or focused, or null when there is none.
   */
  constructor(place, { label, onMove, onAim = () => {} }) {
    this.#place = place;
    this.#onMove = onMove;
    this.#onAim = onAim;
    this.#grid = element("div", { class: "cells", role: "grid", "aria-label": label });
    place.classList.add("board");
    place.replaceChildren(this.#grid);
    this.#grid.addEventListener("click", (event) => this.#clicked(event));
    this.#grid.addEventListener("keydown", (event) => this.#pressed(event));
    this.#grid.addEventListener("pointerover", (event) => this.#aim(this.#cellAt(event)));
    this.#grid.addEventListener("pointerleave", () => this.#aim(null));
    this.#grid.addEventListener("pointercancel", () => this.#aim(null));
    this.#grid.addEventListener("focusin", (event) => this.#focused(event));
    this.#grid.addEventListener("focusout", () => this.#aim(null));
  }

  /**
   * Shows what is left of a start.
   *
   * `playable`: whether moves may be made; `last`: the move that led here; `marks`: for each cell a
   * class and words, such as ["hint", "a winning move"], or null.
   */
  show(start, rows, { playable, last = null, marks = () => null }) {
    if (String(start) !== String(this.#start)) this.#build(start);
    this.#rows = rows;
    this.#playable = playable;
    this.#grid.classList.toggle("playable", playable);
    const held = this.#grid.contains(document.activeElement);
    const taken = (cell) => last && cell[0] >= last[0] && cell[1] >= last[1];
    const alone = areaOf(rows) === 1;
    this.#buttons.forEach((line, r) => line.forEach((button, c) => {
      const cell = [r + 1, c + 1];
      const there = has(rows, cell);
      const mark = there ? marks(cell) : null;
      const classes = ["cell"];
      if (r === 0 && c === 0) classes.push("poison");
      if (!there) classes.push("gone");
      if (!there && taken(cell)) classes.push("last");
      if (!there && last && same(cell, last)) classes.push("corner");
      if (mark) classes.push(mark[0]);
      button.className = classes.join(" ");
      button.disabled = !there;
      button.tabIndex = -1;
      const taking = takes(rows, cell);
      button.dataset.takes = taking;
      const poison = r === 0 && c === 0 ? (alone ? ", the poison" : ", the poison and all") : "";
      const words = `row ${r + 1}, column ${c + 1}: takes ${taking} ${taking === 1 ? "cell" : "cells"}${poison}`;
      button.setAttribute("aria-label", there ? words + (mark ? `, ${mark[1]}` : "") : `row ${r + 1}, column ${c + 1}: gone`);
      button.parentElement.setAttribute("aria-hidden", String(!there));
    }));
    this.#aim(null);
    this.#keepFocus(held);
  }

  /** Puts the keyboard's focus on the board. */
  focus() {
    this.#button(this.#focus)?.focus();
  }

  #build(start) {
    this.#start = start;
    this.#focus = [1, 1];
    this.#grid.style.setProperty("--columns", start[0] ?? 1);
    this.#grid.style.setProperty("--rows", start.length || 1);
    const numbers = Array.from({ length: start[0] ?? 0 }, (_, c) => element("span", {}, String(c + 1)));
    const head = element("div", { class: "line numbers", role: "presentation", "aria-hidden": "true" }, element("span", { class: "number" }), ...numbers);
    this.#buttons = start.map((length, r) => Array.from({ length }, (_, c) => {
      const button = element("button", { type: "button" });
      button.dataset.row = r + 1;
      button.dataset.column = c + 1;
      if (r === 0 && c === 0) button.append(skull());
      return button;
    }));
    const lines = this.#buttons.map((line, r) => element(
      "div",
      { class: "line", role: "row" },
      element("span", { class: "number", "aria-hidden": "true" }, String(r + 1)),
      ...line.map((button) => element("div", { role: "gridcell" }, button)),
    ));
    this.#grid.replaceChildren(head, ...lines);
  }

  #button([row, column]) {
    return this.#buttons[row - 1]?.[column - 1];
  }

  #cellAt(event) {
    // The gap around a cell belongs to it.
    const button = event.target.closest("[role=gridcell]")?.firstElementChild;
    return button ? [Number(button.dataset.row), Number(button.dataset.column)] : null;
  }

  #clicked(event) {
    const cell = this.#cellAt(event);
    // The second click of a double click is none.
    if (!cell || event.detail > 1 || !this.#playable || !has(this.#rows, cell)) return;
    this.#onMove(cell);
  }

  #pressed(event) {
    const cell = this.#cellAt(event);
    const to = cell && keyLeadsTo(event, this.#rows, cell);
    if (!to) return;
    event.preventDefault();
    this.#button(to).focus();
  }

  #focused(event) {
    const cell = this.#cellAt(event);
    if (!cell) return;
    this.#setFocus(cell);
    if (event.target.matches(":focus-visible")) this.#aim(cell);
  }

  #setFocus(cell) {
    const before = this.#button(this.#focus);
    if (before) before.tabIndex = -1;
    this.#focus = cell;
    const now = this.#button(cell);
    if (now) now.tabIndex = 0;
  }

  // The cell that has the focus may be gone: then the nearest one gets it.
  #keepFocus(held) {
    if (this.#rows.length === 0) return;
    const row = Math.min(this.#focus[0], this.#rows.length);
    const cell = [row, Math.min(this.#focus[1], this.#rows[row - 1])];
    this.#setFocus(cell);
    if (held) {
      const button = this.#button(cell);
      if (document.activeElement === button) this.#aimIfKeyboard(cell);
      else button.focus({ preventScroll: true });
    }
  }

  #aimIfKeyboard(cell) {
    if (this.#button(cell).matches(":focus-visible")) this.#aim(cell);
  }

  #aim(cell) {
    const aimed = cell && this.#playable && has(this.#rows, cell) ? cell : null;
    this.#buttons.forEach((line, r) => line.forEach((button, c) => {
      const taken = aimed !== null && r + 1 >= aimed[0] && c + 1 >= aimed[1] && has(this.#rows, [r + 1, c + 1]);
      button.classList.toggle("aimed", taken);
      button.classList.toggle("aim", taken && same([r + 1, c + 1], aimed));
    }));
    this.#onAim(aimed === null ? null : { move: aimed, takes: takes(this.#rows, aimed), leaves: take(this.#rows, aimed) });
  }
}
