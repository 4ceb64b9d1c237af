"""The package beside examples/read_table.py, and beside the rules of the game."""

import contextlib
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import chomp_table
from chomp_table import Table, rows_of, word_of
from conftest import BITS, CHOMP

ROOT = pathlib.Path(__file__).parents[3]
sys.path.append(str(ROOT / "examples"))
import read_table  # noqa: E402


@pytest.fixture(scope="session")
def table(directory):
    return Table(directory)


@pytest.fixture(scope="session")
def stored(directory):
    """The words of the table as another reader has them."""
    return np.concatenate(list(read_table.words_of_table(directory / f"table-{BITS}")))


def all_words():
    """Of all positions of the table, the empty one first."""
    return np.arange(0, 2**BITS, 2, dtype=np.uint64)


def moves_of(rows):
    return [(row + 1, column + 1) for row, length in enumerate(rows) for column in range(length)]


def after(rows, move):
    row, column = move
    cut = rows[: row - 1] + [min(length, column - 1) for length in rows[row - 1 :]]
    return [length for length in cut if length]


def test_words_are_those_of_the_other_reader(table, stored):
    words = np.concatenate(list(table.words()))
    assert words.dtype == np.uint64
    assert np.array_equal(words, stored)


def test_each_position_is_losing_or_not_as_the_other_reader_says(table, stored):
    losing = np.union1d(stored, read_table.mirrors_of(stored))
    words = all_words()
    assert np.array_equal(table.are_losing(words), np.isin(words, losing))
    assert len(losing) == table.losing
    square = words[:64].reshape(8, 8)
    assert np.array_equal(table.are_losing(square), np.isin(square, losing))


def test_each_answer_follows_from_the_rules(table):
    for word in all_words()[1:3_000].tolist():
        rows = rows_of(word)
        assert word_of(rows) == word
        winning = [move for move in moves_of(rows) if after(rows, move) and table.is_losing(after(rows, move))]
        assert table.winning_moves(rows) == winning
        assert table.is_losing(rows) == (not winning)


def test_lists_of_rows_are_positions_too(table):
    boards = [[1], [2, 1], (2, 2), [8] * 8]
    assert table.are_losing(boards).tolist() == [True, True, False, False]
    assert table.are_losing([]).tolist() == []
    assert table.winning_moves((3, 3, 3)) == [(2, 2)]
    for same in [[3, 1, 1, 0, 0], (3, 1, 1), "3,1,1", "[3, 1, 1, 0]", "3 1 1", "0b100110", iter([3, 1, 1])]:
        assert table.is_losing(same), same
    assert table.are_losing(["2x2", [2, 1], "2,1"]).tolist() == [False, True, True]
    assert (word_of("3,1,1"), table.winning_moves("3X3")) == (38, [(2, 2)])


def test_what_it_tells_of_itself(table):
    assert (table.bits, len(table.fingerprint)) == (BITS, 64)
    assert repr(table) == f"<Table of {BITS} bits, {table.losing:,} losing positions>"


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda table: table.is_losing([2, 3]), "longest first"),
        (lambda table: table.is_losing("two"), "is not a position"),
        (lambda table: table.is_losing([10] * 10), "20 bits"),
        (lambda table: table.winning_moves([40] * 40), "at most 64"),
        (lambda table: table.are_losing(np.array([3])), "not even"),
        (lambda table: table.are_losing(np.array([-2])), "not negative"),
        (lambda table: table.are_losing(np.array([0.5])), "whole numbers"),
        (lambda table: table.are_losing(np.array([2**20], dtype=np.uint64)), "21 bits"),
    ],
)
def test_what_is_no_position_is_refused(table, ask, said):
    with pytest.raises(ValueError, match=said):
        ask(table)


def test_no_table_is_an_error_and_a_damaged_one_too(directory, tmp_path):
    with pytest.raises(FileNotFoundError, match="no published table"):
        Table(tmp_path / "none")
    with pytest.raises(OSError, match="127.0.0.1:1"):
        Table("http://127.0.0.1:1")
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    shard = next(copy.glob("table-*/shard-0000.zst"))
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    table = Table(copy)
    with pytest.raises(chomp_table.Damaged, match="shard-0000"):
        list(table.words())
    with pytest.raises(chomp_table.Damaged, match="shard-0000"):
        table.are_losing(all_words())


@contextlib.contextmanager
def served(directory):
    command = [CHOMP, "serve", "--http", "127.0.0.1:0", "--table", directory]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
    finally:
        server.terminate()
        server.wait()


def test_a_table_on_a_server(directory, table):
    with served(directory) as address:
        remote = Table(address)
        assert remote.fingerprint == table.fingerprint
        words = all_words()
        assert np.array_equal(remote.are_losing(words), table.are_losing(words))
        assert remote.winning_moves([8, 8]) == table.winning_moves([8, 8])
