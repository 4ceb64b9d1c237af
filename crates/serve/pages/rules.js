// The rules of Chomp. Nothing here knows of pages or servers.
//
// A position is the list of its row lengths, longest first, from the poisoned corner outwards; the
// empty list is the position without cells. A move is [row, column], counted from 1, with the
// poison at [1, 1]: it takes that cell and all cells beyond it in both directions.

/** @typedef {number[]} Rows */
/** @typedef {number[]} Move */

/** First row + number of rows may not be more than this anywhere. */
export const BITS_MAX = 64;

/**
 * First row + number of rows; 0 for the empty position.
 * @param {Rows} rows
 */
export const bitsOf = (rows) => (rows.length === 0 ? 0 : rows[0] + rows.length);

/**
 * The number of cells.
 * @param {Rows} rows
 */
export const areaOf = (rows) => rows.reduce((sum, length) => sum + length, 0);

/**
 * Whether the cell of a move is there.
 * @param {Rows} rows
 * @param {Move} move
 */
export const has = (rows, [row, column]) => row >= 1 && column >= 1 && column <= (rows[row - 1] ?? 0);

/**
 * What a move leaves.
 * @param {Rows} rows
 * @param {Move} move
 * @returns {Rows}
 */
export function take(rows, [row, column]) {
  const left = rows.map((length, index) => (index + 1 < row ? length : Math.min(length, column - 1)));
  return left.filter((length) => length > 0);
}

/**
 * How many cells a move takes.
 * @param {Rows} rows
 * @param {Move} move
 */
export const takes = (rows, move) => areaOf(rows) - areaOf(take(rows, move));

/**
 * All moves, row by row.
 * @param {Rows} rows
 * @returns {Move[]}
 */
export const movesOf = (rows) =>
  rows.flatMap((length, index) => Array.from({ length }, (_, column) => [index + 1, column + 1]));

/**
 * Whether two moves are the same.
 * @param {Move} a
 * @param {Move} b
 */
export const same = (a, b) => a.every((number, index) => number === b[index]);

/**
 * A position as text: `5,4,2,1`, and `0` for the empty one.
 * @param {Rows} rows
 */
export const textOf = (rows) => (rows.length === 0 ? "0" : rows.join(","));

/**
 * A position as people call it: rectangles are `8 × 10`.
 * @param {Rows} rows
 */
export const nameOf = (rows) =>
  rows.length > 0 && rows.at(-1) === rows[0] ? `${rows.length} × ${rows[0]}` : textOf(rows).replaceAll(",", ", ");

/**
 * The rectangle of `rows` rows and `columns` columns.
 * @type {(rows: number, columns: number) => Rows}
 */
export const rectangle = (rows, columns) => Array(rows).fill(columns);

/**
 * The position of a word, given as its binary digits.
 * @param {string} digits
 * @returns {Rows}
 */
export function fromDigits(digits) {
  const rows = [];
  let length = 0;
  for (const digit of digits) {
    if (digit === "1") length += 1;
    else if (length > 0) rows.push(length);
  }
  return rows.reverse();
}

/**
 * The position in a text: rows (`5,4,2,1`, `5 4 2 1`, `[5, 4, 2, 1, 0]`), a rectangle (`8x10`) or a word (`0b110100`, `0x34`).
 *
 * Throws a RangeError that says what is wrong.
 * @param {string} text
 * @returns {Rows}
 */
export function parse(text) {
  const compact = text.trim().replace(/^(?:\[\s*(.*?)\s*\]|\(\s*(.*?)\s*\))$/, "$1$2").replaceAll(/\s*([,x×])\s*/gi, "$1").replaceAll(/\s+/g, ",");
  if (compact === "") throw new RangeError("Write a position: rows as 5,4,2,1, a rectangle as 8x10, or a word as 0b110100.");
  const isHex = /^0x[0-9a-f]{1,16}$/.test(compact);
  const word = /^0b([01]+)$/i.exec(isHex ? `0b${BigInt(compact).toString(2)}` : compact);
  const sides = /^(\d{1,6})[x×](\d{1,6})$/i.exec(compact);
  let rows;
  if (word) {
    const digits = word[1].replace(/^0+/, "");
    if (digits.endsWith("1")) throw new RangeError("A word ends with 0.");
    if (digits.length > BITS_MAX) throw tooLarge(digits.length);
    rows = fromDigits(digits);
  } else if (sides) {
    const [height, width] = [Number(sides[1]), Number(sides[2])];
    if (height === 0 || width === 0) throw new RangeError("A rectangle has at least one row and one column.");
    if (height + width > BITS_MAX) throw tooLarge(height + width);
    rows = rectangle(height, width);
  } else if (/^\d{1,6}(,\d{1,6})*$/.test(compact)) {
    rows = compact.replace(/(?:^|,)0+(?:,0+)*$/, "").split(",").filter(Boolean).map(Number);
  } else {
    throw new RangeError(`“${shortened(text.trim())}” is no position: write rows as 5,4,2,1, a rectangle as 8x10, or a word as 0b110100.`);
  }
  check(rows);
  return rows;
}

/** The beginning of a text, for a message about it. */
export const shortened = (text) => (text.length > 40 ? `${text.slice(0, 40)}…` : text);

const tooLarge = (bits) =>
  new RangeError(`This position has ${bits} bits (first row + number of rows); at most ${BITS_MAX} are possible.`);

function check(rows) {
  rows.forEach((length, index) => {
    if (length === 0 || length > (rows[index - 1] ?? length)) {
      const wrong = length === 0 ? "has no cells" : `is longer than row ${index}`;
      throw new RangeError(`Row ${index + 1} ${wrong}: rows are listed longest first and have at least one cell.`);
    }
  });
  if (bitsOf(rows) > BITS_MAX) throw tooLarge(bitsOf(rows));
}

/**
 * A random position with `rows` rows and `columns` columns in the first: each is equally likely.
 * @param {number} rows
 * @param {number} columns
 */
export function randomPosition(rows, columns, random = Math.random) {
  const steps = [...Array(columns - 1).fill("1"), ...Array(rows - 1).fill("0")];
  for (let i = steps.length - 1; i > 0; i -= 1) {
    const j = Math.floor(random() * (i + 1));
    [steps[i], steps[j]] = [steps[j], steps[i]];
  }
  return fromDigits(`1${steps.join("")}0`);
}

/** The rules that the record of a game needs. */
export const CHOMP = {
  textOf,
  follow(rows, move) {
    if (!has(rows, move)) throw new RangeError("takes a cell that is not there");
    return take(rows, move);
  },
  /** The player to move when nothing is left has won: the other one took the poison. */
  end: (rows) => (rows.length === 0 ? "won" : null),
};
