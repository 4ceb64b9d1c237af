// The map of all boards that a table covers, and how many winning first moves each has.

import { cellName, count, element, listed } from "./dom.js";
import { Grid } from "./grid.js";

/** The sentence about a board. */
export function boardWords({ rows, columns, moves }) {
  const board = `${rows} × ${columns}`;
  if (moves.length === 0) return `${board}: no winning first move, only the poison is there.`;
  return `${board}: ${count(moves.length, "winning first move")}, ${listed(moves.map(cellName))}.`;
}

/** The openings with those of the mirrored boards: rows and columns exchanged, in moves too. */
export function withMirrors(openings) {
  const mirrored = openings
    .filter(({ rows, columns }) => rows !== columns)
    .map(({ rows, columns, moves }) => ({
      rows: columns,
      columns: rows,
      moves: moves.map(([row, column]) => [column, row]),
    }));
  return [...openings, ...mirrored];
}

/**
 * Draws a map into `place`, from a first column on. `onLook` is told of the board that is pointed at or focused,
 * `onChoose` of the one that is chosen.
 *
 * Gives a function that marks a board as the one that is shown elsewhere.
 */
export function drawMap(place, openings, { label, first = 1, onLook, onChoose }) {
  /** @type {HTMLButtonElement[][]} */
  const buttons = [];
  const openingOf = new Map();
  for (const opening of openings) {
    const { rows, columns, moves } = opening;
    const kind = ["none", "one", "several"][moves.length] ?? "three";
    const button = element(
      "button",
      { type: "button", class: kind, "aria-label": boardWords(opening) },
      moves.length > 1 ? String(moves.length) : "",
    );
    button.dataset.rows = rows;
    button.dataset.columns = columns;
    button.dataset.moves = moves.length;
    openingOf.set(button, opening);
    (buttons[rows - 1] ??= [])[columns - first] = button;
  }
  const grid = new Grid(place, {
    label,
    kind: "map-cells",
    onChoose: (button) => onChoose(openingOf.get(button)),
    onPoint: (button) => button && onLook(openingOf.get(button)),
  });
  const lines = Array.from(buttons, (line) => Array.from(line ?? [], (button) => button ?? null));
  const width = Math.max(...lines.map((line) => line.length));
  const labels = (length, from) => Array.from({ length }, (_, index) => (index === 0 || (from + index) % 5 === 0 ? String(from + index) : ""));
  grid.build(lines, labels(width, first), labels(lines.length, 1));

  /** @type {HTMLButtonElement | null} */
  let marked = null;
  /** @type {(rows: number, columns: number) => void} */
  const mark = (rows, columns) => {
    marked?.removeAttribute("aria-current");
    marked = buttons[rows - 1]?.[columns - first] ?? null;
    marked?.setAttribute("aria-current", "true");
    if (marked) grid.stopAt(marked);
  };
  return mark;
}
