// The map of all boards that a table covers, and how many winning first moves each has.

import { keyLeadsTo } from "./board.js";
import { cellName, count, element, listed } from "./dom.js";

/** What is said of a board. */
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
 * Draws the map into `place`: a grid of buttons, the arrow keys go from board to board. `onLook` is
 * told of the board that is pointed at or focused, `onChoose` of the one that is chosen.
 *
 * Gives a function that marks a board as the one that is shown elsewhere.
 */
export function drawMap(place, openings, { onLook, onChoose }) {
  const all = withMirrors(openings);
  const most = Math.max(...all.map(({ rows }) => rows));
  // Boards are in a staircase, as cells are in a position: row r of the map is as long as the table covers.
  const lengths = Array.from({ length: most }, (_, r) => all.filter(({ rows }) => rows === r + 1).length);
  const buttons = lengths.map((length) => Array(length));
  for (const opening of all) {
    const { rows, columns, moves } = opening;
    const kind = moves.length === 0 ? "none" : moves.length === 1 ? "one" : "several";
    const button = element(
      "button",
      { type: "button", class: kind, tabindex: -1, "aria-label": boardWords(opening) },
      moves.length > 1 ? String(moves.length) : "",
    );
    button.dataset.rows = rows;
    button.dataset.columns = columns;
    button.dataset.moves = moves.length;
    buttons[rows - 1][columns - 1] = button;
  }
  const label = (n) => (n === 1 || n % 5 === 0 ? String(n) : "");
  const numbers = lengths.map((_, c) => element("span", {}, label(c + 1)));
  const head = element("div", { class: "line numbers", role: "presentation", "aria-hidden": "true" }, element("span", { class: "number" }), ...numbers);
  const lines = buttons.map((line, r) => element(
    "div",
    { class: "line", role: "row" },
    element("span", { class: "number", "aria-hidden": "true" }, label(r + 1)),
    ...line.map((button) => element("div", { role: "gridcell" }, button)),
  ));
  const grid = element("div", { class: "cells map-cells", role: "grid", "aria-label": "Boards, by rows and columns" }, head, ...lines);
  grid.style.setProperty("--columns", most);

  const at = ([rows, columns]) => buttons[rows - 1]?.[columns - 1];
  const cellOf = (event) => {
    const button = event.target.closest("[role=gridcell]")?.firstElementChild;
    return button ? [Number(button.dataset.rows), Number(button.dataset.columns)] : null;
  };
  const openingAt = new Map(all.map((opening) => [at([opening.rows, opening.columns]), opening]));
  let stop = at([1, 1]);
  stop.tabIndex = 0;
  const moveStop = (button) => {
    stop.tabIndex = -1;
    stop = button;
    stop.tabIndex = 0;
  };
  const look = (event) => {
    const cell = cellOf(event);
    if (cell) onLook(openingAt.get(at(cell)));
  };
  grid.addEventListener("pointerover", look);
  grid.addEventListener("focusin", (event) => {
    moveStop(event.target);
    look(event);
  });
  grid.addEventListener("keydown", (event) => {
    const cell = cellOf(event);
    const to = cell && keyLeadsTo(event, lengths, cell);
    if (!to) return;
    event.preventDefault();
    at(to).focus();
  });
  grid.addEventListener("click", (event) => {
    const cell = cellOf(event);
    if (cell) onChoose(openingAt.get(at(cell)));
  });
  place.replaceChildren(grid);

  let marked = null;
  return (rows, columns) => {
    marked?.removeAttribute("aria-current");
    marked = at([rows, columns]) ?? null;
    marked?.setAttribute("aria-current", "true");
    if (marked && !grid.contains(document.activeElement)) moveStop(marked);
  };
}
