// The record of a game: of Chomp, or of any other that two play in turn. Nothing here knows of pages or servers.

import { shortened } from "./rules.js";

/** The two who play. */
export const YOU = "you";
export const COMPUTER = "computer";
const other = (player) => (player === YOU ? COMPUTER : YOU);

/**
 * A game: where it started, who began, the moves, and the step that is looked at. It never
 * changes: what is done to it gives another one.
 */
export class Game {
  /**
   * `rules`: `follow` gives the position after a move, or throws a RangeError that says what is wrong with it;
   * `textOf` a position as text; `end` whether who is to move has "won" or "lost", or null while the game goes on.
   */
  constructor(rules, start, first, moves = [], at = moves.length) {
    this.rules = rules;
    this.start = start;
    this.first = first;
    this.moves = moves;
    /** The position before each move, and the one after the last. */
    this.positions = [start];
    for (const [index, move] of moves.entries()) {
      try {
        this.positions.push(rules.follow(this.positions[index], move));
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        throw new RangeError(`Move ${index + 1} ${error.message}.`, { cause: error });
      }
    }
    this.at = Math.max(0, Math.min(at, moves.length));
  }

  /** The position that is looked at. */
  get position() {
    return this.positions[this.at];
  }

  /** The player who makes the move of this index. */
  mover(index) {
    return index % 2 === 0 ? this.first : other(this.first);
  }

  /** Whether who is to move has won or lost; null if the game goes on. */
  get end() {
    return this.rules.end(this.position);
  }

  /** The player to move; null when the game is over. */
  get turn() {
    return this.end === null ? this.mover(this.at) : null;
  }

  /** Whether later moves are known. */
  get isReplay() {
    return this.at < this.moves.length;
  }

  /** The winner at the step that is looked at; null if there is none. */
  get winner() {
    if (this.at === 0 || this.end === null) return null;
    return this.mover(this.end === "won" ? this.at : this.at - 1);
  }

  /** The winner in the end, whichever step is looked at; null if the game goes on. */
  get result() {
    return this.look(this.moves.length).winner;
  }

  /** The game after a move at the step that is looked at; moves after it are forgotten. */
  play(move) {
    return new Game(this.rules, this.start, this.first, [...this.moves.slice(0, this.at), move]);
  }

  /** The same game, looked at after `at` moves. */
  look(at) {
    return new Game(this.rules, this.start, this.first, this.moves, at);
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
    const loser = other(this.result);
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
      `start=${encodeURIComponent(this.rules.textOf(this.start)).replaceAll("%2C", ",")}`,
      `first=${this.first}`,
      ...(moves ? [`moves=${moves}`] : []),
      ...(this.isReplay ? [`at=${this.at}`] : []),
    ].join("&");
  }
}

/** The game in the fragment of an address. Throws a RangeError if that makes no sense. */
export function fieldsOf(fragment) {
  const fields = new URLSearchParams(fragment);
  const first = fields.get("first") ?? YOU;
  if (first !== YOU && first !== COMPUTER) throw new RangeError("It does not say who began.");
  const texts = (fields.get("moves") ?? "").split("_").filter((text) => text !== "");
  const moves = texts.map((text) => {
    if (!/^\d{1,4}(-\d{1,4}){1,2}$/.test(text)) throw new RangeError(`“${shortened(text)}” is no move.`);
    return text.split("-").map(Number);
  });
  const at = fields.get("at") ?? String(moves.length);
  if (!/^\d{1,4}$/.test(at)) throw new RangeError("It does not say which step to look at.");
  return { start: fields.get("start") ?? "", first, moves, at: Number(at) };
}
