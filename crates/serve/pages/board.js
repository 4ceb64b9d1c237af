// The board: a position drawn in squares, to look at, to aim at, and to move on.
//
// Each square is a button in a grid. Squares that are gone leave their places, so nothing moves. What the squares of a
// game are, its layout says; a square is named by the move that is made on it.

import { drawn, element } from "./dom.js";
import { Grid } from "./grid.js";
import { has, movesOf, nameOf, same, take, takes } from "./rules.js";

/** @typedef {import("./rules.js").Move} Move */

/** The drawing on the poisoned cell. */
export function skull() {
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

/** The layout of Chomp: the poisoned corner is at the top left. */
export const CHOMP_BOARD = {
  build: (start) => ({
    lines: start.map((length, r) => Array.from({ length }, (_, c) => [r + 1, c + 1])),
    columns: Array.from({ length: start[0] ?? 0 }, (_, c) => String(c + 1)),
    rows: start.map((_, r) => String(r + 1)),
  }),
  has,
  takes: (rows, [row, column], square) => square[0] >= row && square[1] >= column,
  face: (rows, square) => (same(square, [1, 1]) ? { kind: "poison", draw: skull } : {}),
  words(rows, square) {
    const taking = takes(rows, square);
    const alone = rows.length === 1 && rows[0] === 1;
    const poison = same(square, [1, 1]) ? (alone ? ", the poison" : ", the poison and all") : "";
    return `takes ${taking} ${taking === 1 ? "cell" : "cells"}${poison}`;
  },
  place: ([row, column]) => `row ${row}, column ${column}`,
  /** The name of the position that a move leaves, shown while it is aimed at. */
  leaves(rows, move) {
    const left = take(rows, move);
    return left.length === 0 ? "nothing" : nameOf(left);
  },
  count: takes,
  moves: movesOf,
};

export class Board {
  #grid;
  #layout;
  #squares = [];
  /** @type {string | null} */
  #built = null;
  #position = null;
  /** @type {Move[]} */
  #moves = [];
  #onAim;

  /**
   * `place` becomes the board. `onMove` is told of each move that is made on it, `onAim` of the move that is
   * pointed at or focused, or null when there is none.
   * @param {HTMLElement} place
   * @param {{ label: string, layout?: any, onMove: (move: Move) => void, onAim?: (move: Move | null) => void }} options
   */
  constructor(place, { label, layout = CHOMP_BOARD, onMove, onAim = () => {} }) {
    this.#layout = layout;
    this.#onAim = onAim;
    place.classList.add("board");
    this.#grid = new Grid(place, {
      label,
      kind: layout.kind,
      leaps: layout.leaps,
      onChoose: (button) => {
        const move = this.#moveOn(button);
        if (move) onMove(move);
      },
      onPoint: (button) => this.#aim(button && this.#moveOn(button)),
    });
  }

  /**
   * Shows what is left of a start.
   *
   * `moves`: the moves that may be made; `last`: the move that led here, and `before` the position it was made in;
   * `marks`: for each square a class and words, such as ["hint", "a winning move"], or null; `face`: what else is on it.
   * @param {any} start
   * @param {any} position
   * @param {{ moves: Move[], last?: Move | null, before?: any, marks?: (square: Move) => string[] | null, face?: (square: Move) => any }} shown
   */
  show(start, position, { moves, last = null, before = position, marks = () => null, face = () => null }) {
    const held = this.#grid.isHeld;
    if (String(start) !== this.#built) this.#build(start);
    this.#position = position;
    this.#moves = moves;
    this.#grid.element.classList.toggle("playable", moves.length > 0);
    const legal = new Set(moves.map(String));
    for (const { button, square } of this.#squares) {
      const there = this.#layout.has(position, square);
      const mark = there ? marks(square) : null;
      const [own, more] = [this.#layout.face(position, square), face(square)];
      const drawing = { ...own, ...more };
      const taken = !there && last && this.#layout.takes(before, last, square);
      const kinds = ["cell", own.kind, more?.kind, !there && "gone", taken && "last", last && same(square, last) && "corner", mark?.[0], legal.has(String(square)) && "legal"];
      button.className = kinds.filter(Boolean).join(" ");
      button.disabled = !there;
      button.dataset.takes = there && this.#layout.count && !drawing.text ? this.#layout.count(position, square) : "";
      button.replaceChildren(...(drawing.draw ? [drawing.draw()] : []), drawing.text ?? "");
      const words = [there ? this.#layout.words(position, square) : "gone", mark?.[1], drawing.words, this.#layout.kind === "chess" && legal.has(String(square)) && "a move"].filter(Boolean);
      button.setAttribute("aria-label", [this.#layout.place(square), words.join(", ")].filter(Boolean).join(": "));
      button.parentElement.setAttribute("aria-hidden", String(!there));
    }
    this.#aim(null);
    this.#grid.keepStop(held);
  }

  #build(start) {
    this.#built = String(start);
    const { lines, columns, rows } = this.#layout.build(start);
    this.#squares = [];
    const buttons = lines.map((line, r) => line.map((square, c) => {
      if (square === null) return null;
      const button = element("button", { type: "button" });
      button.dataset.row = r + 1;
      button.dataset.column = c + 1;
      button.dataset.move = square.join("-");
      this.#squares.push({ button, square });
      return button;
    }));
    this.#grid.build(buttons, columns, rows);
  }

  #moveOn(button) {
    const square = this.#squares.find((other) => other.button === button)?.square;
    return square && this.#moves.find((move) => same(move, square)) || null;
  }

  #aim(move) {
    for (const { button, square } of this.#squares) {
      const aimed = move !== null && this.#layout.has(this.#position, square) && this.#layout.takes(this.#position, move, square);
      button.classList.toggle("aimed", aimed);
      button.classList.toggle("aim", aimed && same(square, move));
    }
    this.#onAim(move);
  }
}
