// A grid of buttons that is one stop of the tab key: the arrow keys go from one to the next, over places
// that are empty or disabled; Home and End to the ends of the line, with Ctrl to those of the grid.

import { element } from "./dom.js";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export class Grid {
  #grid;
  /** @type {(HTMLButtonElement | null)[][]} */
  #lines = [];
  /** @type {HTMLButtonElement | null} */
  #stop = null;
  #leaps;
  #onPoint;

  /** With `leaps`, a key that leads nowhere straight on leads to the nearest button that way. `onChoose` is told of a button that is clicked, `onPoint` of one that is pointed at or focused, or null. */
  constructor(place, { label, kind = "", leaps = false, onChoose, onPoint }) {
    this.#leaps = leaps;
    this.#onPoint = onPoint;
    this.#grid = element("div", { class: `cells ${kind}`.trim(), role: "grid", "aria-label": label });
    place.replaceChildren(this.#grid);
    const point = (event) => onPoint(this.#buttonOf(event));
    const leave = () => onPoint(null);
    this.#grid.addEventListener("click", (event) => {
      const button = this.#buttonOf(event);
      // The second click of a double click is none.
      if (button && event.detail < 2) onChoose(button);
    });
    this.#grid.addEventListener("keydown", (event) => this.#pressed(event));
    this.#grid.addEventListener("pointerover", point);
    this.#grid.addEventListener("pointerleave", leave);
    this.#grid.addEventListener("pointercancel", leave);
    this.#grid.addEventListener("focusin", (event) => {
      const button = this.#buttonOf(event);
      if (!button) return;
      this.#setStop(button);
      this.#pointByKeys();
    });
    this.#grid.addEventListener("focusout", leave);
  }

  get element() {
    return this.#grid;
  }

  get isHeld() {
    return this.#grid.contains(document.activeElement);
  }

  /** Builds it anew. `lines` are lists of buttons, or null for places without one; `columns` and `rows` their labels. */
  build(lines, columns, rows) {
    this.#lines = lines;
    const number = (label) => element("span", { class: "number", "aria-hidden": "true" }, label);
    const head = element("div", { class: "line numbers", role: "presentation", "aria-hidden": "true" }, number(""), ...columns.map((label) => element("span", {}, label)));
    const body = lines.map((line, r) => element(
      "div",
      { class: "line", role: "row" },
      number(rows[r]),
      ...line.map((button) => (button ? element("div", { role: "gridcell" }, button) : element("div", { role: "presentation", class: "gap" }))),
    ));
    for (const button of lines.flat()) if (button) button.tabIndex = -1;
    this.#grid.style.setProperty("--columns", columns.length || 1);
    this.#grid.style.setProperty("--rows", lines.length || 1);
    this.#grid.replaceChildren(head, ...body);
    this.#stop = null;
    this.keepStop(false);
  }

  /** The tab key leads to this button from now on. */
  stopAt(button) {
    if (!this.isHeld) this.#setStop(button);
  }

  /** The button that the tab key led to may be gone: then the nearest one gets that, and the focus if it was `held`. */
  keepStop(held) {
    const there = /** @type {HTMLButtonElement[]} */ (this.#lines.flat().filter((button) => button && !button.disabled));
    if (there.length === 0) return;
    const [row, column] = this.#stop ? this.#placeOf(this.#stop) : [0, 0];
    const away = (button) => {
      const [r, c] = this.#placeOf(button);
      return Math.abs(r - row) + Math.abs(c - column);
    };
    const nearest = there.reduce((best, button) => (away(button) < away(best) ? button : best));
    this.#setStop(nearest);
    if (!held) return;
    if (document.activeElement === nearest) this.#pointByKeys();
    else nearest.focus({ preventScroll: true });
  }

  #pointByKeys() {
    if (document.activeElement?.matches(":focus-visible")) this.#onPoint(this.#stop);
  }

  #setStop(button) {
    if (this.#stop) this.#stop.tabIndex = -1;
    this.#stop = button;
    button.tabIndex = 0;
  }

  // The gap around a button belongs to it.
  #buttonOf(event) {
    return event.target.closest("[role=gridcell]")?.firstElementChild ?? null;
  }

  /** @returns {[number, number]} */
  #placeOf(button) {
    const row = this.#lines.findIndex((line) => line.includes(button));
    return [row, this.#lines[row].indexOf(button)];
  }

  #pressed(event) {
    const button = this.#buttonOf(event);
    const to = button && !event.altKey && !event.metaKey ? this.#leadsTo(event, button) : null;
    if (!to) return;
    event.preventDefault();
    to.focus();
  }

  #leadsTo(event, button) {
    const can = (other) => other && !other.disabled;
    let [row, column] = this.#placeOf(button);
    const line = (event.ctrlKey ? this.#lines.flat() : this.#lines[row]).filter(can);
    if (event.key === "Home") return line[0];
    if (event.key === "End") return line.at(-1);
    const step = STEPS[event.key];
    if (!step) return null;
    do {
      row += step[0];
      column += step[1];
      if (can(this.#lines[row]?.[column])) return this.#lines[row][column];
    } while (row >= 0 && column >= 0 && row < this.#lines.length && this.#lines.some((other) => column < other.length));
    return this.#leaps ? this.#leap(this.#placeOf(button), step) : null;
  }

  #leap([row, column], [down, right]) {
    const buttons = this.#lines.flat().filter((other) => other && !other.disabled);
    const away = (button) => {
      const [r, c] = this.#placeOf(button);
      const ahead = (r - row) * down + (c - column) * right;
      return ahead > 0 ? ahead * 100 + Math.abs((r - row) * right) + Math.abs((c - column) * down) : Infinity;
    };
    const nearest = buttons.reduce((best, other) => (away(other) < away(best) ? other : best));
    return away(nearest) === Infinity ? null : nearest;
  }
}
