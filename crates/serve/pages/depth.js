// After how many moves a game of Chomp ends, if the winner hurries and the loser delays: found here, without a server.
//
// A position is its word: 1 is a step along a row and 0 the end of one, from the last row to the first.

import { movesOf, take } from "./rules.js";

/** Positions of more bits have too many positions inside. */
export const DEPTH_BITS = 20;

/** The depths that are known, by words. */
const known = new Uint8Array(2 ** DEPTH_BITS);

/** @param {number[]} rows */
function wordOf(rows) {
  let [word, length] = [0, 0];
  for (const row of rows.toReversed()) {
    word = (((word + 1) << (row - length)) - 1) << 1;
    length = row;
  }
  return word;
}

/** 1 + the least odd depth that a move leaves, since odd ones are losing; if there is none, 1 + the greatest. */
function depthOf(word) {
  if (word === 0 || known[word] > 0) return known[word];
  let [leastOdd, greatest] = [Infinity, 0];
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
      const depth = depthOf(to === 0 ? moved >> ones : moved);
      if (depth % 2 === 1) leastOdd = Math.min(leastOdd, depth);
      greatest = Math.max(greatest, depth);
    }
  }
  known[word] = 1 + (leastOdd < Infinity ? leastOdd : greatest);
  return known[word];
}

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

/** Perfect play from a position: of moves as good as each other the first by row, then by column. */
export function perfectPlay(rows) {
  const line = [];
  for (let left = rows; left.length > 0; left = take(left, line.at(-1))) line.push(rankedMoves(left)[0].move);
  return line;
}
