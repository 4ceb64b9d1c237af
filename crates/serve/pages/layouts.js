// The boards of the small games: which squares there are, what is on them, and what a move does.
//
// A position is its text, as the server has it: docs/GAMES.md describes them.

import { CHOMP_BOARD, skull } from "./board.js";
import { cellName, count, drawn } from "./dom.js";
import { has, randomPosition, rectangle, same, take, takes, textOf } from "./rules.js";

const some = (least, most) => least + Math.floor(Math.random() * (most - least + 1));
const several = (least, most, make) => Array.from({ length: some(least, most) }, make);
const numbers = (length) => Array.from({ length }, (_, index) => index + 1);
const labels = (length) => numbers(length).map(String);
const withoutRules = (text) => text.split("@")[0];
const cells = (number) => count(number, "cell");

/** The rows of a board of Chomp. */
function rowsOf(text) {
  const sides = /^(\d+)x(\d+)$/.exec(text);
  return sides ? rectangle(Number(sides[1]), Number(sides[2])) : text.split(",").map(Number).filter((length) => length > 0);
}

const quadrantsOf = (text) => text.split("/").map(rowsOf);
const heapsOf = (text) => withoutRules(text).split(",").map(Number);
const columnsOf = (text) => text.split(",").map((column) => column.split("-").map(Number));
const gapsOf = (text) => columnsOf(text).reduce((sum, [own, other]) => sum + Math.abs(own - other), 0);
const boardOf = (text) => rowsOf(withoutRules(text));
const isMisere = (text) => text.endsWith("@misere");
const markedOf = (text) => text.split("@").slice(1);

/** A figure in a square, drawn by a path in 24 units. */
const figure = (path, kind) => () => drawn("svg", { viewBox: "0 0 24 24", class: `piece ${kind}`, "aria-hidden": "true" }, drawn("path", { d: path }));
const TOWER = "M5 3h3v2.500h2.500V3h3v2.500H16V3h3v6l-2 2v5.500l2 2V21H5v-2.500l2-2V11L5 9z";
const HORSE = "M6 21v-2.500l2-1.500c0-3.500 3-4 3.500-7-1.500.5-2.500 1.500-4 1.500L5 13l-1.500-2.500L7 6.500 7.500 3l2.500 2c5.500.5 9 4 9 9.500V21z";

const ichomp = order("cell", {
  form: "Up to four boards: 4x4/3,1/2",
  goal: () => "Whoever takes the last cell wins.",
  starts: [
    ["3x4/4x3/2x4/2x2", "Four small boards"],
    ["5x5/4x4/3x3/2x2", "Four squares, 5 to 2"],
    ["4x6/4x5", "Two boards, 4 × 6 and 4 × 5"],
    ["7,5,3,1/6,4,2/5,3,1/4,2", "Four stairs"],
  ],
  random: () => numbers(4).map(() => textOf(randomPosition(some(1, 4), some(1, 4)))).join("/"),
  // The quadrants lie as they are read: 1 and 2 above, 3 and 4 below. Rows and columns count from the middle.
  build(start) {
    const all = quadrantsOf(start);
    const most = (sizes) => Math.max(...sizes);
    const [up, down] = [most([all[0].length, all[1].length]), most([all[2].length, all[3].length])];
    const wide = (index) => all[index][0] ?? 0;
    const [left, right] = [most([wide(0), wide(2)]), most([wide(1), wide(3)])];
    const rows = [...numbers(up).reverse().map((row) => [0, row]), ...numbers(down).map((row) => [2, row])];
    const columns = [...numbers(left).reverse().map((column) => [0, column]), ...numbers(right).map((column) => [1, column])];
    const square = (quadrant, row, column) => (has(all[quadrant], [row, column]) ? [quadrant + 1, row, column] : null);
    return {
      lines: rows.map(([lower, row]) => columns.map(([side, column]) => square(lower + side, row, column))),
      columns: columns.map(([, column]) => String(column)),
      rows: rows.map(([, row]) => String(row)),
    };
  },
  has: (text, [quadrant, ...cell]) => has(quadrantsOf(text)[quadrant - 1], cell),
  takes: (text, move, square) => move[0] === square[0] && square[1] >= move[1] && square[2] >= move[2],
  count: (text, [quadrant, ...cell]) => takes(quadrantsOf(text)[quadrant - 1], cell),
  face(text, [quadrant, row, column]) {
    const sides = [column === 1 && (quadrant % 2 === 1 ? "mid-right" : "mid-left"), row === 1 && (quadrant < 3 ? "mid-below" : "mid-above")];
    return { kind: sides.filter(Boolean).join(" ") };
  },
  place: ([quadrant, row, column]) => `quadrant ${quadrant}, row ${row}, column ${column}`,
  called: ([quadrant, ...cell]) => `quadrant ${quadrant} ${cellName(cell)}`,
  ending: (start, winner) => `${winner} took the last cell.`,
  /** The value of the quadrant that a move leaves. */
  value: (answer, choice) => answer.value ^ answer.parts[choice.move[0] - 1].value ^ choice.value,
});

const poisons = order("cell", {
  ...CHOMP_BOARD,
  leaps: false,
  form: "A board and its poisons: 3x8@1,1@2,2",
  goal: () => "Whoever takes a poison loses.",
  starts: [
    ["3x8@1,1@2,2", "3 × 8, corner and diagonal"],
    ["3x8@1,1@2,1", "3 × 8, corner and below"],
    ["3x8@1,1@1,2", "3 × 8, corner and right"],
    ["3x8@1,2@2,1", "3 × 8, right and below"],
    ["5x6@3,3", "5 × 6, in the middle"],
    ["4x7@1,1", "4 × 7, the corner: Chomp"],
  ],
  random() {
    const rows = randomPosition(some(2, 4), some(4, 8));
    const inside = () => {
      const row = some(1, rows.length);
      return `@${row},${some(1, rows[row - 1])}`;
    };
    return textOf(rows) + [...new Set(several(1, 2, inside))].join("");
  },
  build: (start) => CHOMP_BOARD.build(boardOf(start)),
  has: (text, square) => has(boardOf(text), square),
  count: (text, square) => takes(boardOf(text), square),
  isPoison: (text, square) => markedOf(text).includes(square.join(",")),
  face: (text, square) => (poisons.isPoison(text, square) ? { kind: "poison", draw: skull } : {}),
  words(text, square) {
    const kills = markedOf(text).some((poison) => poisons.takes(text, square, poison.split(",").map(Number)));
    return `takes ${cells(poisons.count(text, square))}${poisons.isPoison(text, square) ? ", a poison" : kills ? " and a poison" : ""}`;
  },
  ending: (start, winner, loser) => `${loser} took a poison.`,
});

const nim = {
  form: "Heaps: 3,4,5, or 3,4,5@misere",
  kind: "counters",
  goal: (start) => `Whoever takes the last counter ${isMisere(start) ? "loses" : "wins"}.`,
  starts: [
    ["3,4,5", "Heaps of 3, 4 and 5"],
    ["1,3,5,8", "Heaps of 1, 3, 5 and 8"],
    ["10,12,14", "Heaps of 10, 12 and 14"],
    ["3,4,5@misere", "3, 4 and 5, the last counter loses"],
    ["1,3,5,8@misere", "1, 3, 5 and 8, the last counter loses"],
  ],
  random: () => several(3, 5, () => some(1, 8)).join(",") + (Math.random() < 0.25 ? "@misere" : ""),
  // A counter is named by the move that takes it and all to its right: the heap, and what is left of it.
  build(start) {
    const heaps = heapsOf(start);
    return {
      lines: heaps.map((heap, h) => numbers(heap).map((counter) => [h + 1, counter - 1])),
      columns: labels(Math.max(...heaps)),
      rows: labels(heaps.length),
    };
  },
  has: (text, [heap, left]) => heapsOf(text)[heap - 1] > left,
  takes: (text, move, square) => move[0] === square[0] && square[1] >= move[1],
  count: (text, [heap, left]) => heapsOf(text)[heap - 1] - left,
  words: (text, move) => `takes ${nim.count(text, move)}, leaves ${move[1]}`,
  place: ([heap, left]) => `heap ${heap}, counter ${left + 1}`,
  called: ([heap, left]) => (left === 0 ? `all of heap ${heap}` : `heap ${heap} down to ${left}`),
  took: (text, move) => `took ${nim.count(text, move)} from heap ${move[0]} and left ${move[1]}`,
  ending: (start, winner, loser) => `${isMisere(start) ? loser : winner} took the last counter.`,
};

/** Boards on which pieces move, and no square goes. */
const chess = {
  kind: "chess",
  has: () => true,
  takes: (text, move, square) => String(move) === String(square),
  words: () => "",
  goal: () => "Whoever cannot move loses.",
  ending: (start, winner, loser) => `${loser} cannot move.`,
};

const towers = {
  form: "Rows of your tower and the other one: 1-8,3-5",
  ...chess,
  starts: [
    ["1-8,2-6,1-4,3-8", "Four columns"],
    ["1-8,3-5", "Two columns"],
    ["4-5,2-7,6-2", "Three columns, sides mixed"],
    ["1-8,2-6,1-4,3-8,1-7,2-5,1-6,4-7", "Eight columns"],
  ],
  random: () => several(3, 6, () => {
    const own = some(1, 8);
    return `${own}-${((own + some(1, 7) - 1) % 8) + 1}`;
  }).join(","),
  // Row 8 is on top, as on a chessboard.
  build(start) {
    const columns = columnsOf(start);
    return {
      lines: numbers(8).reverse().map((row) => columns.map((_, c) => [c + 1, row])),
      columns: labels(columns.length),
      rows: labels(8).reverse(),
    };
  },
  place: ([column, row]) => `column ${column}, row ${row}`,
  /** Towers that go back win no game. */
  replies: (answer) => answer.winning_moves.filter((move) => gapsOf(answer.moves.find((choice) => same(choice.move, move)).position) < gapsOf(answer.position)),
  called: ([column, row]) => `column ${column} to row ${row}`,
  took: (text, [column, row]) => `moved the tower of column ${column} to row ${row}`,
  /** The content of a square. The text of a position begins with the tower of who is to move. */
  stands(text, [column, row], isYourTurn) {
    const at = columnsOf(text)[column - 1].indexOf(row);
    if (at < 0) return null;
    const isYours = (at === 0) === isYourTurn;
    return { draw: figure(TOWER, isYours ? "yours" : "theirs"), words: isYours ? "your tower" : "the computer’s tower" };
  },
};

const horse = {
  form: "Row and column of the horse: 7,8",
  ...chess,
  starts: [["6,8", "Row 6, column 8"], ["8,6", "Row 8, column 6"], ["12,11", "Row 12, column 11"], ["15,15", "Row 15, column 15"]],
  random: () => `${some(4, 12)},${some(4, 12)}`,
  build(start) {
    const [rows, columns] = start.split(",").map(Number);
    return CHOMP_BOARD.build(rectangle(rows, columns));
  },
  face: (text, square) => (text === square.join(",") ? { draw: figure(HORSE, "yours"), words: "the horse" } : {}),
  place: CHOMP_BOARD.place,
  took: (text, move) => `moved the horse to ${horse.place(move)}`,
};

/** Chomp on any order. Where `build` shows nothing but what is left, the rest follows from it. */
function order(noun, own) {
  const left = (text) => own.build(text).lines.flat().filter(Boolean);
  const layout = {
    // Parts that touch at their corners only have no line in common.
    leaps: true,
    has: (text, square) => left(text).some((other) => same(other, square)),
    takes: (text, move, square) => move.every((number, at) => square[at] >= number),
    count: (text, move) => left(text).filter((square) => layout.takes(text, move, square)).length,
    face: (text, square) => (square.every((number) => number === 1) ? { kind: "poison", draw: skull } : {}),
    words: (text, square) => `takes ${count(layout.count(text, square), noun)}`,
    place: CHOMP_BOARD.place,
    took: (text, move) => `took ${layout.place(move)}: ${count(layout.count(text, move), noun)}`,
    goal: () => "Whoever takes the poison loses.",
    ending: (start, winner, loser) => `${loser} took the poison.`,
    value: (answer, choice) => choice.value,
    ...own,
  };
  return layout;
}

/** The heights of the columns of cubes, by rows. */
function heightsOf(text) {
  const [rows, columns, layers] = text.split("x").map(Number);
  return layers ? numbers(rows).map(() => rectangle(columns, layers)) : text.split("/").map((row) => row.split(",").map(Number));
}

const space = order("cube", {
  form: "A box, or heights by rows: 3x3x4, or 4,4,2/3,1",
  starts: [["3x3x3", "A cube, 3 × 3 × 3"], ["2x3x4", "A box, 2 × 3 × 4"], ["3x3x4", "A box, 3 × 3 × 4"], ["4,3,2/3,2,1/2,1,1", "Stairs in three directions"]],
  random() {
    const columns = numbers(some(2, 3));
    /** @type {number[][]} */
    const rows = numbers(some(2, 3)).map(() => []);
    rows.forEach((row, r) => columns.forEach((_, c) => row.push(some(1, Math.min(row[c - 1] ?? 3, rows[r - 1]?.[c] ?? 3)))));
    return rows.map(textOf).join("/");
  },
  // The layers stand side by side, three at the most, with gaps between them.
  build(start) {
    const heights = heightsOf(start);
    const all = numbers(heights[0][0]);
    const bands = all.filter((layer) => layer % 3 === 1).map((first) => all.slice(first - 1, first + 2));
    const beside = (band, show) => band.flatMap((layer) => [...heights[0].map((_, c) => show(c, layer)), null]).slice(0, -1);
    const below = (show, gap) => bands.flatMap((band) => [...heights.map((row, r) => show(band, row, r)), gap]).slice(0, -1);
    return {
      lines: below((band, row, r) => beside(band, (c, layer) => (row[c] >= layer ? [r + 1, c + 1, layer] : null)), [null]),
      columns: beside(bands[0] ?? [], (c) => c + 1).map((label) => String(label ?? "")),
      rows: below((band, row, r) => String(r + 1), ""),
    };
  },
  place: ([row, column, layer]) => `row ${row}, column ${column}, layer ${layer}`,
});

/** The divisors that are left, in ascending order. */
function divisorsOf(text) {
  const [whole, ...gone] = text.split(/[/,]/).map(Number);
  const small = numbers(Math.floor(Math.sqrt(whole))).filter((divisor) => whole % divisor === 0);
  const all = new Set([...small, ...small.map((divisor) => whole / divisor).reverse()]);
  return [...all].filter((divisor) => gone.every((other) => divisor % other > 0));
}

/** How often a prime divides a number. */
const exponent = (number, prime) => (number % prime === 0 ? 1 + exponent(number / prime, prime) : 0);

const divisors = order("divisor", {
  form: "A number, or without the multiples of some divisors: 360, or 360/12,30",
  kind: "numbered",
  starts: [
    ["36", "36, a board of 3 × 3"],
    ["72", "72, a board of 4 × 3"],
    ["60", "60, a box of 3 × 2 × 2"],
    ["360", "360, a box of 4 × 3 × 2"],
    ["210", "210, four primes"],
    ["420", "420, four primes, one twice"],
  ],
  goal: () => "Whoever takes 1 loses.",
  called: String,
  // The server answers about three primes with these powers, but not about four.
  random: () => String(2 ** some(1, 4) * 3 ** some(0, 2) * [1, 5, 7][some(0, 2)]),
  // For one prime or two these are the lines of a board; for more each has the numbers with as many prime factors.
  build(start) {
    const all = divisorsOf(start);
    const primes = all.filter((prime) => prime > 1 && all.every((other) => other === 1 || other >= prime || prime % other > 0));
    const lineOf = (divisor) => (primes.length > 2 ? primes : primes.slice(1)).reduce((sum, prime) => sum + exponent(divisor, prime), 0);
    const lines = [];
    for (const divisor of all) (lines[lineOf(divisor)] ??= []).push([divisor]);
    return { lines, columns: Array(Math.max(0, ...lines.map((line) => line.length))).fill(""), rows: lines.map(() => "") };
  },
  takes: (text, [move], [other]) => other % move === 0,
  face: (text, square) => (divisors.has(text, square) ? { kind: "named", text: String(square[0]) } : {}),
  place: String,
  ending: (start, winner, loser) => `${loser} took 1.`,
  // The numbers of the divisors stand in the squares.
  value: null,
});

const crossed = order("cell", {
  form: "A board and the cells that are crossed out: 4x5@2,3@4,5",
  starts: [
    ["4x5@2,3", "4 × 5 with a hole"],
    ["4x5@2,3@4,5", "4 × 5, a hole and a corner"],
    ["5x5@5,5", "5 × 5 without the last cell"],
    ["4x6@1,2@2,1", "4 × 6, poison alone"],
    ["4x5@2,2@3,3@4,4", "4 × 5 with a diagonal of holes"],
  ],
  random: () => textOf(randomPosition(some(3, 5), some(3, 6))) + several(1, 4, () => `@${some(1, 4)},${some(2, 5)}`).join(""),
  build(start) {
    const board = CHOMP_BOARD.build(boardOf(start));
    const isThere = (square) => !markedOf(start).includes(square.join(","));
    return { ...board, lines: board.lines.map((line) => line.map((square) => (isThere(square) ? square : null))) };
  },
});

/** So many rows stand for a board that goes on downwards without end. */
const FAR = 1_000;

/** The rows of a board that may go on without end. */
function endlessOf(text) {
  const length = (word) => (word === "w" ? Infinity : Number(word));
  const [height, width] = text.split("x").map(length);
  if (width !== undefined) return rectangle(Math.min(height, FAR), width);
  const rows = text.replace("...", "").split(",").map(length);
  return text.endsWith("...") ? [...rows, ...rectangle(FAR - rows.length, rows.at(-1))] : rows;
}

const transfinite = order("cell", {
  ...CHOMP_BOARD,
  leaps: false,
  form: "Rows, w for one without end: w,w,5 or 3xw; w,1... if the last goes on downwards",
  kind: "endless",
  starts: [
    ["w,w,3", "Two rows without end, one of 3"],
    ["wxw", "No end in both directions"],
    ["3xw", "Three rows without end"],
    ["w,4,2", "A row without end, rows of 4 and 2"],
    ["w,3,2...", "One without end, one of 3, then 2"],
    ["5,3,1...", "5 and 3, then a column"],
  ],
  random() {
    const above = ["", "w,", "w,w,"][some(0, 2)];
    return above + textOf(randomPosition(some(1, 3), some(1, 4))) + (above === "" || Math.random() < 0.3 ? "..." : "");
  },
  build: (start) => CHOMP_BOARD.build(rowsOf(start)),
  has: (text, square) => has(endlessOf(text), square),
  count(text, [row, column]) {
    const taken = endlessOf(text).slice(row - 1).reduce((sum, length) => sum + Math.max(0, length - column + 1), 0);
    return taken < FAR / 2 ? taken : Infinity;
  },
  /** The position that a move leaves, also if the server did not list it. */
  left(text, move) {
    const rows = take(endlessOf(text), move).map((length) => (length === Infinity ? "w" : length));
    const [rest] = rows.slice(FAR - 1);
    return rest ? `${[...rows.filter((length) => length !== rest), rest].join(",")}...` : rows.join(",") || "0";
  },
  face(text, square) {
    const [rows, { kind, draw }] = [endlessOf(text), CHOMP_BOARD.face(text, square)];
    const goesOn = [rows[square[0] - 1] === Infinity && "goes-right", rows[FAR - 1] >= square[1] && "goes-down"];
    return { kind: [kind, ...goesOn].filter(Boolean).join(" "), draw };
  },
  words: (text, square) => `takes ${cells(transfinite.count(text, square))}${String(square) === "1,1" ? ", the poison and all" : ""}`,
});

/** The games by their names. */
export const LAYOUTS = { ichomp, poisons, nim, towers, horse, space, divisors, crossed, transfinite };
