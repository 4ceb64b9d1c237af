// Looks positions up in the files that `chomp site` writes. docs/FORMAT.md tells what is in them.

import { ask, fetched, keeper, Problem } from "./net.js";
import { bitsOf, movesOf, take } from "./rules.js";

/** The bits of the first layer, and of how many more each other layer is. */
const FIRST_BITS = 20;
const LAYER_BITS = 4;
const FILE_NUMBERS = 131_072;
const BLOCK_GAPS = 128;
const K_BITS = 6;
/** The bytes that the index of a folder has for each file: the first number, the digest. */
const ENTRY_BYTES = 40;
/** So many files are kept as numbers, a megabyte each. */
const FILES_KEPT = 24;

/** Browsers compute digests for pages that came by a secure way only. */
export const isChecked = Boolean(globalThis.crypto?.subtle);

// --- The number of a position -----------------------------------------------------------------------

/** Index n, k: of n things the sets of k. */
const CHOICES = [[1]];
while (CHOICES.length <= 40) {
  const above = CHOICES[CHOICES.length - 1];
  CHOICES.push([1, ...above.map((count, k) => count + (above[k + 1] ?? 0))]);
}

const layerOf = (bits) => Math.max(0, Math.ceil((bits - FIRST_BITS) / LAYER_BITS));
/** The most rows of a position of `columns` columns, which has no fewer columns than rows. */
const rowsMax = (layer, columns) => Math.min(columns, FIRST_BITS + layer * LAYER_BITS - columns);

/** Rows and columns exchanged. */
const mirrored = (rows) => Array.from({ length: rows[0] }, (_, column) => rows.filter((length) => length > column).length);

/** The image that is numbered: the wide one, or of two squares the one that is shorter in the last row that differs. */
function numbered(rows) {
  if (rows.length < rows[0]) return rows;
  const image = mirrored(rows);
  if (rows.length > rows[0]) return image;
  const row = rows.findLastIndex((length, index) => length !== image[index]);
  return row < 0 || rows[row] < image[row] ? rows : image;
}

/**
 * The number of a position that has cells.
 * @param {number[]} rows
 */
export function numberOf(rows) {
  const wide = numbered(rows);
  const own = layerOf(bitsOf(wide));
  let number = 0;
  for (let layer = 0; layer <= own; layer += 1) {
    const end = layer < own ? FIRST_BITS + layer * LAYER_BITS : wide[0];
    for (let columns = 1; columns < end; columns += 1) {
      const below = rowsMax(layer, columns) - 1;
      number += CHOICES[columns + below][below];
    }
  }
  const most = rowsMax(own, wide[0]);
  for (let row = 1; row < wide.length; row += 1) number += CHOICES[wide[row] - 1 + most - row][most - row];
  return number;
}

// --- The files --------------------------------------------------------------------------------------

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const wrong = (path) => new Problem("failed", `The file ${path} is damaged, or is not the one of this table.`);

/** A number of eight bytes. All are below 2^53. */
const numberAt = (view, at) => view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;

/** The bytes at a path, if they have this digest. */
async function bytesOf(path, sha256) {
  const buffer = await fetched(path, (response) => response.arrayBuffer());
  if (isChecked && hex(new Uint8Array(await crypto.subtle.digest("SHA-256", buffer))) !== sha256) throw wrong(path);
  return buffer;
}

const root = keeper(1, async () => {
  const found = await ask("lookup/lookup.json");
  if (found.format !== 1) throw wrong("lookup/lookup.json");
  return found;
});

/** The first number and the digest of each file of a folder. */
const indexOf = keeper(1_000, async (folder, sha256) => {
  const path = `lookup/${folder}/index.bin`;
  const bytes = await bytesOf(path, sha256);
  if (bytes.byteLength % ENTRY_BYTES !== 0) throw wrong(path);
  return Array.from({ length: bytes.byteLength / ENTRY_BYTES }, (_, entry) => ({
    first: numberAt(new DataView(bytes), entry * ENTRY_BYTES),
    sha256: hex(new Uint8Array(bytes, entry * ENTRY_BYTES + 8, 32)),
  }));
});

/** The numbers of a file. */
const numbersOf = keeper(FILES_KEPT, async (path, { first, sha256 }) => {
  const bytes = new Uint8Array(await bytesOf(path, sha256));
  const view = new DataView(bytes.buffer);
  const count = bytes.length < 12 ? 0 : view.getUint32(0, true);
  if (count === 0 || count > FILE_NUMBERS || numberAt(view, 4) !== first) throw wrong(path);
  const numbers = new Float64Array(count);
  let at = 12 * 8;
  /** The next 24 bits and some more; zeros after the end. */
  const next = () => {
    if (at > bytes.length * 8) throw wrong(path);
    const byte = at >> 3;
    return (bytes[byte] | (bytes[byte + 1] << 8) | (bytes[byte + 2] << 16) | (bytes[byte + 3] << 24)) >>> (at & 7);
  };
  const taken = (bits) => {
    if (bits > 24) return taken(24) + taken(bits - 24) * 2 ** 24;
    const found = next() & (2 ** bits - 1);
    at += bits;
    return found;
  };
  /** How many 1s stand before the next 0, which is taken too. */
  const ones = () => {
    for (let before = 0; ; before += 24) {
      const zeros = ~next() | (1 << 24);
      const found = 31 - Math.clz32(zeros & -zeros);
      at += Math.min(found + 1, 24);
      if (found < 24) return before + found;
    }
  };
  numbers[0] = first;
  let k = 0;
  for (let index = 1; index < count; index += 1) {
    if (index % BLOCK_GAPS === 1) k = taken(K_BITS);
    numbers[index] = numbers[index - 1] + 1 + ones() * 2 ** k + taken(k);
  }
  return numbers;
});

/** The last index of an ascending list whose number is at most this one; -1 if there is none. */
function lastUpTo(length, numberAtIndex, number) {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numberAtIndex(middle) <= number) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

async function isLosing(rows) {
  if (rows.length === 0) return false;
  const number = numberOf(rows);
  const { folders } = await root("");
  const folder = lastUpTo(folders.length, (index) => folders[index].first, number);
  if (folder < 0) return false;
  const files = await indexOf(folder, folders[folder].sha256);
  const file = lastUpTo(files.length, (index) => files[index].first, number);
  if (file < 0) return false;
  const numbers = await numbersOf(`lookup/${folder}/${String(file).padStart(3, "0")}.bin`, files[file]);
  return numbers[lastUpTo(numbers.length, (index) => numbers[index], number)] === number;
}

// --- What the table says ----------------------------------------------------------------------------

/** The single cell that is farthest from the edges, for who has lost: the other one may still go wrong. */
function farthest(rows) {
  const corners = rows.map((column, index) => [index + 1, column]).filter(([row, column]) => (rows[row] ?? 0) < column);
  const better = (one, other) => Math.min(...other) - Math.min(...one) || other[0] + other[1] - one[0] - one[1] || one[0] - other[0];
  return corners.sort(better)[0] ?? null;
}

/**
 * The answer of the table about a position, as the server gives it.
 * @param {number[]} rows
 */
export async function position(rows) {
  const { bits } = await root("");
  if (bitsOf(rows) > bits) throw new Problem("refused", `This position has ${bitsOf(rows)} bits, and the table here has ${bits}.`);
  const losing = await isLosing(rows);
  // No two losing positions are one move apart.
  const moves = losing ? [] : movesOf(rows);
  const wins = await Promise.all(moves.map((move) => isLosing(take(rows, move))));
  const winning = moves.filter((_, index) => wins[index]);
  return { rows, losing, winning_moves: winning, reply: winning[0] ?? farthest(rows) };
}
