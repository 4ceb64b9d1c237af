"""Asks tables of losing positions of the game Chomp.

A position is the list of its rows, longest first, as [5, 4, 2, 1]; a text as `chomp query` takes it, as "8x10"; or its
word, a number: docs/FORMAT.md says how that follows from the rows. A move is (row, column), counted from 1, the poison at (1, 1).
"""

import os

import numpy as np

from ._native import Damaged, rows_of, word_of
from ._native import Table as _Table

__all__ = ["Damaged", "Table", "rows_of", "word_of"]


def _written(rows):
    return rows if isinstance(rows, str) else list(rows)


class Table:
    """A table in a directory, or on a server or in a bucket that is read over HTTP: Table("https://host/table-40").

    Of a directory with several tables it is that of the most bits. Raises FileNotFoundError if there is none, OSError if
    it cannot be read or reached, and Damaged if its bytes are not those that were published, now or at any later question.
    """

    def __init__(self, place):
        self._table = _Table(os.fspath(place))

    @property
    def bits(self):
        """It knows all positions of which first row + number of rows are at most so many."""
        return self._table.bits

    @property
    def losing(self):
        """The number of its losing positions, both of each mirror pair."""
        return self._table.losing

    @property
    def fingerprint(self):
        """SHA-256 over its positions: the same for every right table of so many bits."""
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
