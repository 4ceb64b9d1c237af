"""Asks tables of losing positions of the game Chomp, and solves sums and perfect play without one.

A position is the list of its rows, longest first, as [5, 4, 2, 1]; a text as `chomp query` takes it, as "8x10"; or its
word, a number: docs/FORMAT.md says how that follows from the rows. A move is (row, column), counted from 1, the poison at (1, 1).
"""

import os
from typing import NamedTuple

import numpy as np

from . import _native
from ._native import Damaged, rows_of, word_of

__all__ = ["Damaged", "Sum", "Table", "perfect_play", "rows_of", "solve_sum", "word_of"]


def _written(rows):
    return rows if isinstance(rows, str) else list(rows)


class Table:
    """A table in a directory, or on a server or in a bucket that is read over HTTP: Table("https://host/table-40").

    Of a directory with several tables it is that of the most bits. Raises FileNotFoundError if there is none, OSError if
    it cannot be read or reached, and Damaged if its bytes are not those that were published, now or at any later question.
    """

    def __init__(self, place):
        self._table = _native.Table(os.fspath(place))

    @property
    def bits(self):
        """The table has all positions with first row + number of rows up to this number."""
        return self._table.bits

    @property
    def losing(self):
        """The number of its losing positions, both of each mirror pair."""
        return self._table.losing

    @property
    def fingerprint(self):
        """SHA-256 over its positions: the same for every right table of as many bits."""
        return self._table.fingerprint

    def is_losing(self, rows):
        """Whether who is to move loses. Raises ValueError if these are no rows, or too many bits for this table."""
        return self._table.is_losing(_written(rows))

    def winning_moves(self, rows):
        """All moves that leave a losing position, as a list of (row, column)."""
        return self._table.winning_moves(_written(rows))

    def are_losing(self, positions):
        """Whether each of many positions is losing, as an array of bool of the same length.

        Positions are an array of words (fastest), or a list of positions, each as rows or as a text.
        """
        if not isinstance(positions, np.ndarray):
            positions = [word_of(_written(rows)) for rows in positions]
        words = np.asarray(positions)
        if words.size and words.dtype.kind not in "ui":
            raise ValueError(f"an array of words has whole numbers, and this has {words.dtype}")
        if words.dtype.kind == "i" and (words < 0).any():
            raise ValueError("words are not negative")
        flat = np.ascontiguousarray(words, dtype="<u8")
        return np.frombuffer(self._table.are_losing(flat.tobytes()), dtype=bool).reshape(words.shape)

    def words(self):
        """All words of the table, ascending, as arrays of up to 4,194,304: of each mirror pair the smaller one.

        Every byte is checked before it is given.
        """
        for number in range(self._table.shards):
            yield np.frombuffer(self._table.shard(number), dtype="<u8")

    def __repr__(self):
        return f"<Table of {self.bits} bits, {self.losing:,} losing positions>"


class Sum(NamedTuple):
    """The answer about a sum: boards side by side, where a move takes a cell of one, but no poison."""

    value: int
    """Its Grundy value: the XOR of those of its boards, and 0 if who is to move loses."""
    values: list
    """The Grundy value of each board, that of the poison alone being 0."""
    winning_moves: list
    """All moves that leave the value 0, as (board, row, column); boards are counted from 1 too."""


def solve_sum(boards):
    """The Sum of these boards, which needs no table.

    Raises ValueError if one is no position, has no cells, or has more than 2**24 positions inside, or fewer if it has
    more than 256 cells: 13x13 and 8x24 take a few seconds.
    """
    return Sum(*_native.solve_sum(boards if isinstance(boards, str) else [_written(rows) for rows in boards]))


def perfect_play(rows):
    """The moves to the end, the poison last, if the winner hurries and the loser delays, as a list of (row, column).

    Of moves as good as each other it is the first by row, then by column. It needs no table, and raises ValueError
    where solve_sum does.
    """
    return _native.perfect_play(_written(rows))
