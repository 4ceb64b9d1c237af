// Solved here without a server: after how many moves a game of Chomp ends if the winner hurries and the loser
// delays, and Grundy values.
//
// A position is its word: 1 is a step along a row and 0 the end of one, from the last row to the first.

import { movesOf, take } from "./rules.js";

/** Positions of more bits have too many positions inside. */
export const SOLVED_BITS = 20;

/** The depths that are known, by words; and the values, each 1 more than it is. */
const depths = new Uint8Array(2 ** SOLVED_BITS);
const values = new Uint8Array(2 ** SOLVED_BITS);

/** @param {number[]} rows */
function wordOf(rows) {
  let [word, length] = [0, 0];
  for (const row of rows.toReversed()) {
    word = (((word + 1) << (row - length)) - 1) << 1;
    length = row;
  }
  return word;
}

/** Calls `visit` with each word that a move leaves. */
function afterMoves(word, visit) {
  for (let from = 31 - Math.clz32(word); from > 0; from -= 1) {
    if (((word >> from) & 1) === 0) continue;
    const above = (word >> (from + 1)) << (from + 1);
    let ones = 1;
    for (let to = from - 1; to >= 0; to -= 1) {
      if ((word >> to) & 1) {
        ones += 1;
        continue;
      }
      // The cell lies where this step and this end of a row meet. Without it the ends between them come first.
      const moved = above | (((1 << ones) - 1) << to) | (word & ((1 << to) - 1));
      visit(to === 0 ? moved >> ones : moved);
    }
  }
}

/** 1 + the least odd depth that a move leaves, since odd ones are losing; if there is none, 1 + the greatest. */
function depthOf(word) {
  if (word === 0 || depths[word] > 0) return depths[word];
  let [leastOdd, greatest] = [Infinity, 0];
  afterMoves(word, (left) => {
    const depth = depthOf(left);
    if (depth % 2 === 1) leastOdd = Math.min(leastOdd, depth);
    greatest = Math.max(greatest, depth);
  });
  depths[word] = 1 + (leastOdd < Infinity ? leastOdd : greatest);
  return depths[word];
}

/** The least number that is not the value after a move. The poison is never taken. */
function wordsValue(word) {
  if (values[word] === 0) {
    const seen = new Uint8Array(2 ** 7);
    afterMoves(word, (left) => {
      if (left > 0) seen[wordsValue(left)] = 1;
    });
    values[word] = 1 + seen.indexOf(0);
  }
  return values[word] - 1;
}

/**
 * The Grundy value of a position with cells: 0 if it is losing.
 * @param {number[]} rows
 */
export const valueOf = (rows) => wordsValue(wordOf(rows));

/**
 * The number of moves until the poison is taken after each move, that move counted, from the best move to the worst.
 * @param {number[]} rows
 */
export function rankedMoves(rows) {
  const moves = movesOf(rows).map((move) => ({ move, depth: 1 + depthOf(wordOf(take(rows, move))) }));
  // A winning move leaves an odd number: the fewer the better. Of losing moves the longest is the best.
  const worth = ({ depth }) => (depth % 2 === 0 ? 1_000 - depth : depth);
  return moves.sort((a, b) => worth(b) - worth(a));
}

/** Perfect play from a position: among equally good moves the smallest row, then the smallest column. */
export function perfectPlay(rows) {
  const line = [];
  for (let left = rows; left.length > 0; left = take(left, line.at(-1))) line.push(rankedMoves(left)[0].move);
  return line;
}
