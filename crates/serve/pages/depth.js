// After how many moves a game ends if the winner hurries and the loser delays. It needs no table.

import { movesOf, take } from "./rules.js";

/** The most bits of a position whose depth is told: at most 48,620 positions are inside. */
export const DEPTH_BITS = 19;

/**
 * The depths of all positions inside one of these rows, as a function of the rows.
 *
 * That of the empty position is 0. That of any other is 1 more than that of the position that is left: of those with an
 * odd depth the least, or else the greatest. So it is odd if and only if the position is losing.
 * @param {number[]} board
 */
export function depthsInside(board) {
  // The positions are numbered as words in a dictionary, so that moves lead to smaller numbers. By row, then by length:
  // how many have the same rows before this one, and a shorter one here.
  /** @type {number[][]} */
  const before = [];
  let inside = Array(board.length === 0 ? 1 : board[0] + 1).fill(1);
  for (let row = board.length - 1; row >= 0; row -= 1) {
    before[row] = [0];
    for (let length = 0; length <= board[row]; length += 1) before[row].push(before[row][length] + inside[length]);
    inside = inside.map((_, most) => before[row][Math.min(most, board[row]) + 1]);
  }
  const depths = new Uint16Array(inside.at(-1) ?? 1);
  const rows = board.map(() => 0);
  for (let number = 1; number < depths.length; number += 1) {
    // The next position: the last row that can be longer is, and those after it are empty.
    let row = rows.length - 1;
    while (rows[row] === Math.min(board[row], rows[row - 1] ?? Infinity)) rows[row--] = 0;
    rows[row] += 1;
    let [leastOdd, most] = [Infinity, 0];
    for (let kept = 0, first = 0; first < rows.length && rows[first] > 0; first += 1) {
      for (let length = 0; length < rows[first]; length += 1) {
        let left = kept;
        for (let below = first; below < rows.length && rows[below] > 0; below += 1) left += before[below][Math.min(length, rows[below])];
        const depth = depths[left];
        if (depth % 2 === 1 && depth < leastOdd) leastOdd = depth;
        if (depth > most) most = depth;
      }
      kept += before[first][rows[first]];
    }
    depths[number] = 1 + (leastOdd < Infinity ? leastOdd : most);
  }
  return (/** @type {number[]} */ position) => depths[position.reduce((sum, length, row) => sum + before[row][length], 0)];
}

/**
 * Perfect play from a position on: after each move the depth is 1 less. Of moves as good as each other the first is made.
 * @param {number[]} rows
 */
export function perfectPlay(rows) {
  const depthOf = depthsInside(rows);
  const line = [];
  for (let at = rows; at.length > 0; at = take(at, line[line.length - 1])) {
    const wanted = depthOf(at) - 1;
    const [move] = movesOf(at).filter((cell) => depthOf(take(at, cell)) === wanted);
    line.push(move);
  }
  return line;
}
