// The rules of Chomp, and the record of a game. Nothing here knows of pages or servers.
//
// A position is the list of its row lengths, longest first, from the poisoned corner outwards; the
// empty list is the position without cells. A move is [row, column], counted from 1, with the
// poison at [1, 1]: it takes that cell and all cells beyond it in both directions.

/** First row + number of rows may not be more than this anywhere. */
export const BITS_MAX = 64;

/** First row + number of rows; 0 for the empty position. */
export const bitsOf = (rows) => (rows.length === 0 ? 0 : rows[0] + rows.length);

/** The number of cells. */
export const areaOf = (rows) => rows.reduce((sum, length) => sum + length, 0);

/** Whether the cell of a move is there. */
export const has = (rows, [row, column]) => row >= 1 && column >= 1 && column <= (rows[row - 1] ?? 0);

/** What a move leaves. */
export function take(rows, [row, column]) {
  const left = rows.map((length, index) => (index + 1 < row ? length : Math.min(length, column - 1)));
  return left.filter((length) => length > 0);
}

/** How many cells a move takes. */
export const takes = (rows, move) => areaOf(rows) - areaOf(take(rows, move));

/** All moves, row by row. */
export const movesOf = (rows) =>
  rows.flatMap((length, index) => Array.from({ length }, (_, column) => [index + 1, column + 1]));

/** Whether two moves are the same. */
export const same = (a, b) => a[0] === b[0] && a[1] === b[1];

/** A position as text: `5,4,2,1`, and `0` for the empty one. */
export const textOf = (rows) => (rows.length === 0 ? "0" : rows.join(","));

/** A position as people call it: rectangles are `8 × 10`. */
export const nameOf = (rows) =>
  rows.length > 0 && rows.at(-1) === rows[0] ? `${rows.length} × ${rows[0]}` : textOf(rows).replaceAll(",", ", ");

/** The rectangle of so many rows and columns. */
export const rectangle = (rows, columns) => Array(rows).fill(columns);

/** The position of a word, given as its binary digits. */
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
 * The position in a text: rows (`5,4,2,1`), a rectangle (`8x10`) or a word (`0b110100`).
 *
 * Throws a RangeError that says what is wrong.
 */
export function parse(text) {
  const compact = text.trim().replaceAll(/\s*([,x×])\s*/gi, "$1").replaceAll(/\s+/g, ",");
  if (compact === "") throw new RangeError("Write a position: rows as 5,4,2,1, a rectangle as 8x10, or a word as 0b110100.");
  const word = /^0b([01]+)$/i.exec(compact);
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
    rows = compact === "0" ? [] : compact.split(",").map(Number);
  } else {
    throw new RangeError(`“${shortened(text.trim())}” is no position: write rows as 5,4,2,1, a rectangle as 8x10, or a word as 0b110100.`);
  }
  check(rows);
  return rows;
}

const shortened = (text) => (text.length > 40 ? `${text.slice(0, 40)}…` : text);

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

/** A random position with so many rows, and so many columns in the first: each is equally likely. */
export function randomPosition(rows, columns, random = Math.random) {
  const steps = [...Array(columns - 1).fill("1"), ...Array(rows - 1).fill("0")];
  for (let i = steps.length - 1; i > 0; i -= 1) {
    const j = Math.floor(random() * (i + 1));
    [steps[i], steps[j]] = [steps[j], steps[i]];
  }
  return fromDigits(`1${steps.join("")}0`);
}

/** The two who play. */
export const YOU = "you";
export const COMPUTER = "computer";
const other = (player) => (player === YOU ? COMPUTER : YOU);

/**
 * A game: where it started, who began, the moves, and the step that is looked at. It never
 * changes: what is done to it gives another one.
 */
export class Game {
  /** Throws a RangeError if a move takes a cell that is not there. */
  constructor(start, first, moves = [], at = moves.length) {
    this.start = start;
    this.first = first;
    this.moves = moves;
    /** The position before each move, and the one after the last. */
    this.positions = [start];
    for (const [index, move] of moves.entries()) {
      if (!has(this.positions[index], move)) {
        throw new RangeError(`Move ${index + 1} takes a cell that is not there.`);
      }
      this.positions.push(take(this.positions[index], move));
    }
    this.at = Math.max(0, Math.min(at, moves.length));
  }

  /** The position that is looked at. */
  get rows() {
    return this.positions[this.at];
  }

  /** Who makes the move of this index. */
  mover(index) {
    return index % 2 === 0 ? this.first : other(this.first);
  }

  /** Who is to move; null when the poison is taken. */
  get turn() {
    return this.rows.length === 0 ? null : this.mover(this.at);
  }

  /** Whether later moves are known. */
  get isReplay() {
    return this.at < this.moves.length;
  }

  /** Who has won at the step that is looked at; null if nobody has. */
  get winner() {
    return this.at > 0 && this.rows.length === 0 ? this.mover(this.at) : null;
  }

  /** The game after a move at the step that is looked at; moves after it are forgotten. */
  play(move) {
    return new Game(this.start, this.first, [...this.moves.slice(0, this.at), move]);
  }

  /** The same game, looked at after so many moves. */
  look(at) {
    return new Game(this.start, this.first, this.moves, at);
  }

  /** The step where you moved last; null if you did not. */
  get before() {
    for (let at = this.at - 1; at >= 0; at -= 1) if (this.mover(at) === YOU) return at;
    return null;
  }

  /** The next step where you are to move, or the last; null if this is the last. */
  get after() {
    for (let at = this.at + 1; at < this.moves.length; at += 1) if (this.mover(at) === YOU) return at;
    return this.isReplay ? this.moves.length : null;
  }

  /**
   * The last move by which the loser of the game gave the win away: its index, or null if there is
   * none, because the start was lost already. `answers` says of each position what the table says.
   */
  turningPoint(answers) {
    const loser = this.mover(this.moves.length - 1);
    for (let index = this.moves.length - 1; index >= 0; index -= 1) {
      const given = !answers[index].losing && !answers[index + 1].losing;
      if (this.mover(index) === loser && given) return index;
    }
    return null;
  }

  /** The game as the fragment of an address. */
  toFragment() {
    const moves = this.moves.map((move) => move.join("-")).join("_");
    return [
      `start=${textOf(this.start)}`,
      `first=${this.first}`,
      ...(moves ? [`moves=${moves}`] : []),
      ...(this.isReplay ? [`at=${this.at}`] : []),
    ].join("&");
  }

  /** The game in the fragment of an address. Throws a RangeError if there is none. */
  static fromFragment(fragment) {
    const fields = new URLSearchParams(fragment);
    const start = parse(fields.get("start") ?? "");
    if (start.length === 0) throw new RangeError("A game starts with one cell at least.");
    const first = fields.get("first") ?? YOU;
    if (first !== YOU && first !== COMPUTER) throw new RangeError("It does not say who began.");
    const texts = (fields.get("moves") ?? "").split("_").filter((text) => text !== "");
    const moves = texts.map((text) => {
      const cell = /^(\d{1,2})-(\d{1,2})$/.exec(text);
      if (!cell) throw new RangeError(`“${shortened(text)}” is no move.`);
      return [Number(cell[1]), Number(cell[2])];
    });
    const at = fields.get("at") ?? String(moves.length);
    if (!/^\d{1,4}$/.test(at)) throw new RangeError("It does not say which step to look at.");
    return new Game(start, first, moves, Number(at));
  }
}
