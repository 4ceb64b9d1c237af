// The Play page: a game of Chomp against the computer, which asks the table for each of its moves.

import { askPosition, pageAddress } from "./api.js";
import { CHOMP_BOARD } from "./board.js";
import { byId, cellName, count, element, Notice, persist, say, tableFacts, tellTable } from "./dom.js";
import { begin } from "./match.js";
import { bitsOf, CHOMP, has, movesOf, nameOf, parse, randomPosition, rectangle, takes, textOf } from "./rules.js";

const FIRST_GAME = [4, 6];

/** The table, as soon as the server tells of it. */
const tableKnown = persist(new Notice(byId("table-notice")), tableFacts);
/** The bits of the table, when they are known. */
let tableBits = null;

/** @type {() => [number, number]} */
const sides = () => [Number(byId("rows").value), Number(byId("columns").value)];

function slider(name, value) {
  return element(
    "div",
    { class: "slider" },
    element("label", { for: name }, name === "rows" ? "Rows" : "Columns"),
    element("input", { type: "range", id: name, min: 1, max: 15, value, oninput: () => fitSides(name) }),
    element("output", { id: `${name}-out`, for: name }, String(value)),
  );
}

/** Keeps rows + columns within the table: what was not moved gives way. */
function fitSides(moved) {
  const most = (tableBits ?? 16) - 1;
  const other = moved === "rows" ? "columns" : "rows";
  for (const side of ["rows", "columns"]) byId(side).max = most;
  byId(other).value = Math.min(Number(byId(other).value), most + 1 - Number(byId(moved).value));
  for (const side of ["rows", "columns"]) say(byId(`${side}-out`), byId(side).value);
}

/** The start that a text means. Throws a RangeError that says what is wrong with it. */
function startOf(text) {
  const rows = parse(text);
  if (rows.length === 0) throw new RangeError("A game starts with one cell at least.");
  if (tableBits !== null && bitsOf(rows) > tableBits) {
    throw new RangeError(`This position has ${bitsOf(rows)} bits (first row + number of rows). The table here has ${tableBits}.`);
  }
  return rows;
}

byId("sides").append(...FIRST_GAME.map((value, index) => slider(["rows", "columns"][index], value)));
byId("typed").value = "5,4,2,1";
fitSides("rows");
const explore = element("a", { id: "explore-it" }, "Explore this position");
byId("go-on").after(element("p", {}, explore));
const match = begin({
  ...CHOMP,
  layout: CHOMP_BOARD,
  introduction: "Take a cell. It goes with everything to the right of it and below.",
  goal: () => "Whoever takes the poison loses.",
  called: cellName,
  form: "Rows, longest first; or 8x10; or a word, 0b110100",
  name: nameOf,
  parse: async (text) => startOf(text),
  full: async () => rectangle(...sides()),
  random: () => randomPosition(...sides()),
  async ask(rows) {
    await tableKnown;
    return askPosition(rows);
  },
  known: () => true,
  // Of losing moves the server takes a single cell far from the edges: the mirrored one is as far.
  replies(answer, rows) {
    if (answer.winning_moves.length > 0) return answer.winning_moves;
    const [row, column] = answer.reply;
    return [answer.reply, [column, row]].filter((move) => has(rows, move) && takes(rows, move) === 1);
  },
  movesOf,
  ending: (winner, loser) => `${loser} took the poison.`,
  onShow({ position }) {
    explore.hidden = position.length === 0;
    explore.href = `${pageAddress("explore")}#position=${textOf(position)}`;
  },
  took: (rows, [row, column]) => `took row ${row}, column ${column}: ${count(takes(rows, [row, column]), "cell")}`,
  aimed: (rows, move) => `${cellName(move)} takes ${count(takes(rows, move), "cell")} and leaves ${CHOMP_BOARD.leaves(rows, move)}.`,
});
const table = await tableKnown;
tableBits = table.bits;
tellTable(table);
fitSides("rows");
say(byId("limits"), `The table knows every position with rows + columns up to ${tableBits}.`);
if (match.start() && bitsOf(match.start()) > table.bits) match.fromAddress();
