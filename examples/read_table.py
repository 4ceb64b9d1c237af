#!/usr/bin/env python3
"""Reads a table of losing Chomp positions, and checks every byte of it.

    read_table.py FOLDER                the folder table-NN: checks it, prints counts and fingerprint
    read_table.py --rows FOLDER         all losing positions, both of each mirror pair, one a line
    read_table.py shard-0007.zst        one shard alone: checks it, prints its words' number; or --rows

Written from docs/FORMAT.md alone. Needs numpy 2 and zstandard. Ends with code 3 if something is
damaged. As a module: words_of_table(folder) yields the words of each shard as an array.
"""

import argparse
import hashlib
import json
import os
import pathlib
import struct
import sys

import numpy as np
import zstandard

HEADER = struct.pack("<II8sI", 0x184D2A50, 12, b"chompshd", 1)
INDEX = struct.Struct("<II8sII")
ENTRY = np.dtype([("first", "<u8"), ("offset", "<u8"), ("words", "<u4"), ("bytes", "<u4"), ("digest", "V32")])
TAIL = struct.Struct("<QQ32s")
INDEX_BYTES_MAX = 1 << 20
FRAME_WORDS_MAX = 8_192
MANIFEST_BYTES_MAX = 32 << 20


class Damaged(Exception):
    """The bytes are not those of a table."""


def check(holds, what):
    if not holds:
        raise Damaged(what)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def gap_block(block, n):
    """The n numbers of a gap block, as an array."""
    check(len(block) >= n, "a gap block ends early")
    near = np.frombuffer(block, np.uint8, n)
    gaps = near.astype(np.uint64)
    far = np.flatnonzero((near >= 224) & (near < 255))
    wide = np.flatnonzero(near == 255)
    check(len(block) == n + len(far) + 8 * len(wide), "a gap block has another length")
    low = np.frombuffer(block, np.uint8, len(far), n).astype(np.uint64)
    gaps[far] = 224 + (gaps[far] - 224 << 8) + low
    gaps[wide] = np.frombuffer(block, "<u8", len(wide), n + len(far))
    check(np.all(gaps[wide] >= 8160), "a wide gap is narrow")
    # Each number is the one before, 1, and the gap; the first is the gap.
    numbers = np.cumsum(gaps + 1) - 1
    check(np.all(gaps < 2**63) and np.all(numbers < 2**63), "a number is too large")
    check(np.all(numbers[1:] > numbers[:-1]), "numbers do not ascend")
    return numbers


def class_block(block, n):
    """The n numbers of a class block, as an array."""
    turned = gap_block(block, n)
    numbers = (turned & 2**57 - 1) << 6 | turned >> 57
    numbers.sort()
    return numbers


def read_index(shard, where):
    """The entries of a shard's index, the last word, and where the index starts. It ends with the
    file, and has a digest of its own."""
    check(len(shard) >= len(HEADER) + INDEX.size + TAIL.size, f"{where}: too short")
    last, start, digest = TAIL.unpack_from(shard, len(shard) - TAIL.size)
    length = len(shard) - start
    possible = len(HEADER) <= start and INDEX.size + TAIL.size <= length <= INDEX_BYTES_MAX
    check(possible, f"{where}: its index cannot be at {start}")
    check(hashlib.sha256(shard[start:-32]).digest() == digest, f"{where}: its index is damaged")
    *beginning, frames = INDEX.unpack_from(shard, start)
    check(beginning == [0x184D2A51, length - 8, b"chompidx", 1], f"{where}: it has no index of format 1")
    check(length == INDEX.size + ENTRY.itemsize * frames + TAIL.size, f"{where}: its index has another length")
    return np.frombuffer(shard, ENTRY, frames, start + INDEX.size), last, start


def words_of_shard(shard, where):
    """The words of the bytes of a shard, ascending, after they were checked."""
    check(shard[: len(HEADER)] == HEADER, f"{where}: it is no shard of format 1")
    entries, last, index_offset = read_index(shard, where)
    offset, decompressor, words = len(HEADER), zstandard.ZstdDecompressor(), []
    for entry in entries:
        place = f"{where}: the frame at {offset}"
        check(entry["offset"] == offset, f"{place} is not where the index says")
        frame = shard[offset : offset + int(entry["bytes"])]
        check(hashlib.sha256(frame).digest() == entry["digest"].tobytes(), f"{place} is damaged")
        n = int(entry["words"])
        check(1 <= n <= FRAME_WORDS_MAX, f"{place} has {n} words")
        # A gap takes nine bytes at the most, and a frame says how long its content is.
        size = zstandard.frame_content_size(frame)
        check(n <= size <= 9 * n, f"{place} has {size} bytes of content")
        words.append(class_block(decompressor.decompress(frame), n) << 1)
        check(words[-1][0] == entry["first"], f"{place} has another first word")
        offset += len(frame)
    check(offset == index_offset, f"{where}: there is something between its frames and its index")
    check(words, f"{where}: it has no words")
    words = np.concatenate(words)
    check(words[-1] == last, f"{where}: its last word is not {last}")
    check(np.all(words[1:] > words[:-1]), f"{where}: its words do not ascend")
    return words


def read_manifest(folder):
    """The manifest of a table, after it was compared with the list of digests."""
    path = folder / "manifest.json"
    check(path.stat().st_size <= MANIFEST_BYTES_MAX, f"{path}: too large")
    data = path.read_bytes()
    try:
        manifest = json.loads(data)
        check(manifest["format"] == 2, f"{path}: format {manifest['format']} is not known here")
        digests = [(sha256(data), path.name)]
        digests += [(shard["sha256"], shard["name"]) for shard in manifest["shards"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path}: it is no manifest") from error
    names = [f"shard-{number:04}.zst" for number in range(len(digests) - 1)]
    check([name for _, name in digests[1:]] == names, f"{path}: its shards have other names")
    sums = "".join(f"{digest}  {name}\n" for digest, name in digests)
    path = folder / "SHA256SUMS"
    check(path.read_bytes() == sums.encode(), f"{path}: it is not what the manifest says")
    return manifest


def words_of_table(folder, manifest=None):
    """The words of each shard of a table, ascending, after they were checked."""
    folder = pathlib.Path(folder)
    manifest = manifest or read_manifest(folder)
    before = 0
    for info in manifest["shards"]:
        path = folder / info["name"]
        check(path.stat().st_size == info["bytes"], f"{path}: it has not {info['bytes']} bytes")
        shard = path.read_bytes()
        check(sha256(shard) == info["sha256"], f"{path}: its SHA-256 is another")
        check(sha256(shard[info["index_offset"] :]) == info["index_sha256"], f"{path}: its index is another")
        words = words_of_shard(shard, path)
        found = (int(words[0]), int(words[-1]), len(words))
        said = (info["first"], info["last"], info["entries"])
        check(found == said and found[0] > before, f"{path}: its words are not {said}")
        check(sha256(words.tobytes()) == info["words_sha256"], f"{path}: the SHA-256 of its words is another")
        before = found[1]
        yield words


def bits_of(words):
    """The bits of each word: how many binary digits it has."""
    steps = words.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        steps |= steps >> shift
    return np.bitwise_count(steps).astype(np.uint64)


def mirrors_of(words):
    """The word of the mirror image of each position: reversed, with every bit flipped."""
    flipped, mirrors = ~words, np.zeros_like(words)
    for bit in range(64):
        mirrors |= (flipped >> bit & 1) << (63 - bit)
    return mirrors >> 64 - bits_of(words)


def row_texts():
    """A function from words to texts, as 5,4,2,1: a 0 is a row of as many cells as there are 1s
    before it, and the last 0 is the first row. Halves of words are looked up."""
    known = {}

    def rows(half, ones, digits):
        key = (half, ones, digits)
        text = known.get(key)
        if text is None:
            lengths = []
            for digit in f"{half:0{digits}b}":
                ones += digit == "1"
                if digit == "0" and ones:
                    lengths.append(str(ones))
            text = known[key] = ",".join(reversed(lengths))
        return text

    def text(word):
        high, low = word >> 16, word & 0xFFFF
        texts = rows(low, high.bit_count(), 16), text(high) if high > 0xFFFF else rows(high, 0, 16)
        return ",".join(filter(None, texts))

    return text


def print_rows(words, text):
    """Prints the positions of an array of words, each before its mirror image."""
    for word, mirror in zip(words.tolist(), mirrors_of(words).tolist()):
        print(text(word))
        if mirror != word:
            print(text(mirror))


class Fingerprint:
    """The fingerprint of words: the SHA-256 of the SHA-256 of the words of each shard."""

    def __init__(self):
        self.leaves, self.leaf, self.words = hashlib.sha256(), hashlib.sha256(), 0

    def begin_leaf(self):
        if self.words:
            self.leaves.update(self.leaf.digest())
            self.leaf, self.words = hashlib.sha256(), 0

    def update(self, words):
        self.leaf.update(words.tobytes())
        self.words += len(words)

    def hexdigest(self):
        leaves = self.leaves.copy()
        if self.words:
            leaves.update(self.leaf.digest())
        return leaves.hexdigest()


def check_table(folder, manifest, shards):
    """Goes through all words: counts them and takes their fingerprints, for each number of bits.
    Passes them on, and at the end compares what it found with the manifest."""
    bits = manifest["bits"]
    stored, fingerprint, fingerprints = np.zeros(65, np.int64), Fingerprint(), []
    for words in shards:
        fingerprint.begin_leaf()
        check(np.all(mirrors_of(words) >= words), f"{folder}: a mirror image has a smaller word")
        widths = bits_of(words)
        stored += np.bincount(widths.astype(np.int64), minlength=65)
        start = 0
        for end in np.searchsorted(widths, np.arange(len(fingerprints), widths[-1]), "right"):
            fingerprint.update(words[start:end])
            fingerprints.append(fingerprint.hexdigest())
            start = end
        fingerprint.update(words[start:])
        yield words
    fingerprints += [fingerprint.hexdigest()] * (bits + 1 - len(fingerprints))
    stored = np.cumsum(stored).tolist()
    losing = [2 * stored[k] - k // 2 for k in range(bits + 1)]
    path = folder / "manifest.json"
    check(stored[-1] == stored[bits] == manifest["stored"], f"{path}: stored is not {stored[-1]}")
    check(losing == manifest["losing_by_bits"], f"{path}: losing_by_bits is not {losing}")
    check(losing[-1] == manifest["losing"], f"{path}: losing is not {losing[-1]}")
    check(fingerprints == manifest["fingerprints_by_bits"], f"{path}: not its fingerprints")
    check(fingerprints[-1] == manifest["fingerprint"], f"{path}: not its fingerprint")


def main():
    parser = argparse.ArgumentParser(description="Reads a table of losing Chomp positions.")
    parser.add_argument("path", type=pathlib.Path, help="a folder table-NN, or a shard")
    parser.add_argument("--rows", action="store_true", help="print all losing positions")
    arguments = parser.parse_args()
    path, text = arguments.path, row_texts()
    if path.is_dir():
        manifest = read_manifest(path)
        for words in check_table(path, manifest, words_of_table(path, manifest)):
            if arguments.rows:
                print_rows(words, text)
        if not arguments.rows:
            for bits, losing in enumerate(manifest["losing_by_bits"]):
                print(f"{bits:2} bits  {losing:16,} losing")
            print(f"{manifest['stored']:,} stored words, fingerprint {manifest['fingerprint']}")
    else:
        words = words_of_shard(path.read_bytes(), path)
        if arguments.rows:
            print_rows(words, text)
        else:
            print(f"{len(words):,} words from {words[0]} to {words[-1]}")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # Whoever read it has seen enough; what is left to be written goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.exit(f"error: {error}")
    except (Damaged, zstandard.ZstdError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3)
