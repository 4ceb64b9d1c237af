// The Explore page: the map of all boards, any position with its moves, and how many there are.

import { askCounts, askOpenings, askPosition, askValue, hasValues, pageAddress, Problem } from "./api.js";
import { Board, CHOMP_BOARD } from "./board.js";
import { drawChart } from "./chart.js";
import { byId, cellName, count, element, isCalm, listed, Notice, number, pause, persist, say, sentence, tableFacts, tellTable } from "./dom.js";
import { boardWords, drawMap, withMirrors } from "./map.js";
import { Game, YOU } from "./record.js";
import { areaOf, bitsOf, CHOMP, movesOf, parse, same, take, takes, textOf } from "./rules.js";
import { SOLVED_BITS, perfectPlay, rankedMoves } from "./solve.js";

const FIRST_POSITION = "8x10";
const COUNTING_MS = 1_000;

const tableNotice = new Notice(byId("table-notice"));
const notice = new Notice(byId("notice"));
const board = new Board(byId("board"), { label: "Board with the outcome of each move", onMove: follow, onAim: tellAim });

let shown = [];
/** Counts the positions that were asked for: the answer to an earlier one is dropped. */
let asked = 0;
let tableBits = null;
/** @type {(rows: number, columns: number) => void} */
let markOnMap = () => {};

// --- A position -----------------------------------------------------------------------------------

/** Shows the position in the address. */
function fromAddress() {
  const text = new URLSearchParams(location.hash.slice(1)).get("position");
  const start = tableBits !== null && tableBits < 18 ? `${Math.floor(tableBits / 2)}x${Math.floor(tableBits / 2)}` : FIRST_POSITION;
  byId("text").value = text ?? start;
  read();
}

/** Shows what stands in the field. */
function read() {
  say(byId("wrong"), "");
  byId("text").setAttribute("aria-invalid", "false");
  try {
    const rows = parse(byId("text").value);
    if (tableBits !== null && bitsOf(rows) > tableBits) {
      throw new RangeError(`This position has ${bitsOf(rows)} bits (first row + number of rows). The table here has ${tableBits}.`);
    }
    show(rows);
    return true;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    say(byId("wrong"), error.message);
    byId("text").setAttribute("aria-invalid", "true");
    return false;
  }
}

/** Goes to a position, as a place of its own in the history. */
function open(text) {
  byId("text").value = text;
  if (read()) history.pushState(null, "", `#position=${/^\d+x\d+$/.test(text) ? text : textOf(shown)}`);
}

async function show(rows) {
  const mine = (asked += 1);
  shown = rows;
  notice.hide();
  drawOutcomes(null);
  const isRectangle = rows.length > 0 && rows[0] === rows.at(-1);
  markOnMap(isRectangle ? rows.length : 0, rows[0]);
  byId("play-it").hidden = rows.length === 0;
  byId("play-it").href = rows.length === 0 ? pageAddress("play") : `${pageAddress("play")}#${new Game(CHOMP, rows, YOU).toFragment()}`;
  if (tableBits === null) return;
  try {
    const answer = await askPosition(rows);
    if (mine !== asked) return;
    drawOutcomes(answer);
    await showRanks(answer);
  } catch (error) {
    if (mine === asked) notice.show(error, () => show(rows));
  }
}

/** @type {(answer: any, face?: (cell: any) => any) => void} */
function drawBoard(answer, face = () => null) {
  const wins = (cell) => answer.winning_moves.some((move) => same(move, cell));
  board.show(shown, shown, {
    moves: movesOf(shown),
    marks: (cell) => answer && (wins(cell) ? ["wins", "a winning move"] : ["loses", "a losing move"]),
    face,
  });
}

function drawOutcomes(answer) {
  drawBoard(answer);
  say(byId("outcome"), answer ? outcome(answer) : "\u00a0");
  const facts = [
    ["Rows", textOf(shown)],
    ["Cells", number(areaOf(shown))],
    ["Bits", number(bitsOf(shown))],
    ["Word", wordOf(shown)],
  ];
  byId("facts").replaceChildren();
  for (const [name, value] of facts) addFact(name, value);
}

function addFact(name, value) {
  byId("facts").append(element("dt", {}, name), element("dd", { class: "mono" }, value));
}

/** Writes on the cells what was chosen to stand there, and lists the moves by it. */
async function showRanks(answer) {
  const chosen = byId("numbers").elements.numbers.value;
  const mine = asked;
  byId("ranked").replaceChildren();
  say(byId("ranked-told"), "\u00a0");
  const hasDepth = bitsOf(shown) <= SOLVED_BITS && shown.length > 0;
  if (hasDepth) {
    const line = perfectPlay(shown);
    addFact("Moves to the end", `${number(line.length)}, if the winner hurries and the loser delays`);
    addFact("Perfect play", line.map(([row, column]) => `(${row},${column})`).join(" "));
  }
  if (chosen === "depth") {
    if (!hasDepth) return say(byId("ranked-told"), `The moves to the end are told up to ${SOLVED_BITS} bits.`);
    drawRanks(answer, rankedMoves(shown).map(({ move, depth }) => [move, depth]), "Moves to the end", "The best moves first: the winner hurries, the loser delays.");
  } else if (chosen === "value") {
    try {
      const { value, moves_by_value: byValue } = await askValue(shown);
      if (mine !== asked || byId("numbers").elements.numbers.value !== chosen) return;
      drawRanks(answer, byValue.flatMap((moves, left) => moves.map((move) => [move, left])), "Value left", `The Grundy value is ${value}. ${value === 0 ? "Every move leaves a greater one" : "The other moves leave greater ones"}.`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (mine === asked) say(byId("ranked-told"), sentence(error.message));
    }
  }
}

/** Writes numbers on cells, and lists their moves. `ranks` are [move, number], the best first. */
function drawRanks(answer, ranks, name, told) {
  say(byId("ranked-told"), told);
  const numberOf = new Map(ranks.map(([move, rank]) => [String(move), rank]));
  drawBoard(answer, (cell) => {
    const rank = numberOf.get(String(cell));
    return rank === undefined ? null : { kind: "valued", text: String(rank), words: `${name.toLowerCase()} ${rank}` };
  });
  const groups = Map.groupBy(ranks, ([, rank]) => rank);
  const rows = [...groups].map(([rank, all]) => element("tr", {}, element("td", {}, String(rank)), element("td", { class: "text long" }, all.map(([move]) => cellName(move)).join(" "))));
  const head = element("tr", {}, element("th", { scope: "col" }, name), element("th", { scope: "col", class: "text" }, "Moves"));
  byId("ranked").replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
}

/** The word of a position, in binary digits. */
function wordOf(rows) {
  let digits = "";
  let length = 0;
  for (const row of rows.toReversed()) {
    digits += `${"1".repeat(row - length)}0`;
    length = row;
  }
  return digits === "" ? "0" : `0b${digits} = ${number(BigInt(`0b${digits}`))}`;
}

function outcome({ rows, losing, winning_moves: winning }) {
  if (rows.length === 0) return "Nothing is left: whoever is to move has won.";
  if (losing) return areaOf(rows) === 1 ? "Losing: only the poison is left." : "Losing: whatever is taken, the other player wins.";
  return `Winning, with ${count(winning.length, "winning move")}: ${listed(winning.map(cellName))}.`;
}

/** The move is made: what it leaves is shown. */
function follow(cell) {
  open(textOf(take(shown, cell)));
}

function tellAim(move) {
  const text = move && `${cellName(move)} takes ${count(takes(shown, move), "cell")} and leaves ${CHOMP_BOARD.leaves(shown, move)}.`;
  say(byId("aim"), text ?? "\u00a0");
}

// --- The map --------------------------------------------------------------------------------------

/** Boards of a box that are longer than any of the table have a strip of their own. */
const isLong = ({ columns }) => tableBits !== null && columns >= tableBits;

const tellBoard = (opening) => say(byId(isLong(opening) ? "long-told" : "map-told"), boardWords(opening));

function choose(opening) {
  const { rows, columns } = opening;
  const behavior = isCalm() ? "auto" : "smooth";
  // A box has told of this board, and nobody of its other positions.
  if (tableBits !== null && rows + columns > tableBits) {
    tellBoard(opening);
    byId(isLong(opening) ? "long-told" : "map-told").scrollIntoView({ behavior, block: "nearest" });
    return;
  }
  open(`${rows}x${columns}`);
  const { top } = byId("outcome").getBoundingClientRect();
  if (top < 0 || top > innerHeight * 0.7) byId("position-card").scrollIntoView({ behavior, block: "start" });
}

function listBoards(place, openings, none) {
  const head = ["Rows", "Columns", "Winning first moves"].map((name, i) => element("th", { scope: "col", class: i === 2 && "text" }, name));
  const body = openings.map((opening) => {
    const { rows, columns, moves } = opening;
    const button = element("button", { type: "button", class: "link", onclick: () => choose(opening), "aria-label": `Show ${rows} by ${columns}` }, moves.map(cellName).join(", ") || "none");
    return element("tr", {}, element("td", {}, String(rows)), element("td", {}, String(columns)), element("td", { class: "text" }, button));
  });
  if (body.length === 0) body.push(element("tr", {}, element("td", { colspan: 3, class: "text" }, none)));
  place.replaceChildren(element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
}

async function showMap() {
  const openings = await persist(tableNotice, askOpenings);
  if (openings.length === 0) return say(byId("map-told"), "The table covers no board.");
  const several = openings.filter(({ moves }) => moves.length > 1);
  const shared = { onLook: tellBoard, onChoose: choose };
  const mark = drawMap(byId("map"), withMirrors(openings.filter((opening) => !isLong(opening))), { label: "Boards, by rows and columns", ...shared });
  const long = openings.filter(isLong);
  byId("long-part").hidden = long.length === 0;
  const markLong = long.length === 0 ? () => {} : drawMap(byId("long"), long, { label: "Longer boards, by rows and columns", first: table.bits, ...shared });
  markOnMap = (rows, columns) => {
    mark(rows, columns);
    markLong(rows, columns);
  };
  const isRectangle = shown.length > 0 && shown[0] === shown.at(-1);
  if (isRectangle) markOnMap(shown.length, shown[0]);
  const most = several.length === 0 ? "no board has more than one winning first move" : `${number(several.length)} of them ${several.length === 1 ? "has" : "have"} more than one winning first move`;
  say(byId("map-told"), `${count(openings.length, "board")}, not counting mirrored ones; ${most}. Choose one to see it.`);
  listBoards(byId("several"), several, "None in this table.");
  listBoards(byId("boards"), openings, "None in this table.");
}

// --- The counts -----------------------------------------------------------------------------------

function chartByBits(table) {
  const exactly = (bits) => table.losing_by_bits[bits] - table.losing_by_bits[bits - 1];
  drawChart(byId("by-bits"), {
    title: "Losing positions of at most so many bits",
    xLabel: "bits (first row + number of rows)",
    yLabel: "positions, log scale",
    points: table.losing_by_bits.map((losing, bits) => [bits, losing]).slice(2),
    words: ([bits, losing]) => `${count(losing, "losing position")} of at most ${bits} bits; ${number(exactly(bits))} of exactly ${bits}.`,
    columns: ["bits", "losing_at_most", "losing_exactly"],
    extra: ([bits]) => [exactly(bits)],
    file: `chomp-losing-by-bits-${table.bits}.csv`,
  });
}

async function chartByArea(table) {
  const title = "Losing positions of so many cells";
  const bar = element("progress", { max: 1, value: 0, "aria-label": "Counted" });
  const told = element("p", { class: "quiet" }, "Asking for the counts.");
  byId("by-area").replaceChildren(element("h3", {}, title), told, bar);
  const area = byId("by-area");
  area.setAttribute("aria-busy", "true");
  let counts = await persist(tableNotice, askCounts);
  while (counts.losing_by_area === null) {
    bar.max = Math.max(1, counts.stored);
    bar.value = counts.counted;
    say(told, `The server counts: ${number(counts.counted)} of ${number(counts.stored)} stored positions.`);
    await pause(COUNTING_MS);
    counts = await persist(tableNotice, askCounts);
  }
  area.removeAttribute("aria-busy");
  const complete = counts.complete_to ?? table.bits - 1;
  drawChart(area, {
    title,
    xLabel: "cells",
    yLabel: "positions, log scale",
    points: counts.losing_by_area.map((losing, cells) => [cells, losing]).slice(1, complete + 1),
    words: ([cells, losing]) => `${count(losing, "losing position")} of ${count(cells, "cell")}.`,
    columns: ["cells", "losing"],
    file: `chomp-losing-by-area-${table.bits}.csv`,
  });
}

/** Values can be shown if there is a table of them. */
async function offerValues() {
  try {
    if (!(await hasValues())) return;
  } catch (error) {
    if (error instanceof Problem) return;
    throw error;
  }
  byId("numbers").elements[0].append(element("label", {}, element("input", { type: "radio", name: "numbers", value: "value" }), element("span", {}, "Values")));
}

// --- The start ------------------------------------------------------------------------------------

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  open(byId("text").value.trim());
});
byId("numbers").addEventListener("change", () => show(shown));
// The enter key sends a form.
byId("numbers").addEventListener("submit", (event) => event.preventDefault());
addEventListener("popstate", fromAddress);

fromAddress();
const table = await persist(tableNotice, tableFacts);
tableBits = table.bits;
tellTable(table);
fromAddress();
chartByBits(table);
await Promise.all([showMap(), chartByArea(table), offerValues()]);
