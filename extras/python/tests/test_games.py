"""Sums and perfect play, which need no table, beside the rules of the game and beside the program."""

import functools
import itertools
import json
import subprocess

import pytest

from chomp_table import perfect_play, solve_sum
from conftest import CHOMP
from test_table import after, moves_of

BOARDS = [(1,), (2, 1), (2, 2), (3,), (1, 1), (3, 1, 1), (3, 3)]
SUMS = [*itertools.product(BOARDS, repeat=2), (BOARDS[1], BOARDS[2], BOARDS[5]), ((3, 2),), ()]


def moves_of_sum(boards):
    """The moves (board, row, column), and the boards that they leave: no poison is taken."""
    for number, rows in enumerate(boards):
        for move in moves_of(rows)[1:]:
            left = tuple(after(list(rows), move))
            yield (number + 1, *move), boards[:number] + (left,) + boards[number + 1 :]


@functools.cache
def value(boards):
    """The Grundy value by its definition."""
    left = {value(left) for _, left in moves_of_sum(boards)}
    return next(number for number in itertools.count() if number not in left)


@functools.cache
def depth(rows):
    """After how many moves a game ends if the winner hurries and the loser delays: odd for a losing position."""
    left = [depth(tuple(after(list(rows), move))) for move in moves_of(rows)]
    odd = [number for number in left if number % 2 == 1]
    return 1 + (min(odd) if odd else max(left)) if left else 0


@pytest.mark.parametrize("boards", SUMS)
def test_a_sum_is_answered_as_the_rules_say(boards):
    answer = solve_sum(boards)
    assert answer.value == value(boards)
    assert answer.values == [value((rows,)) for rows in boards]
    winning = [move for move, left in moves_of_sum(boards) if value(left) == 0]
    assert answer.winning_moves == winning


@pytest.mark.parametrize("rows", [(), (1,), (1, 1), (3, 2), (4, 2, 1), (4, 4, 4), (5, 3, 3, 1), (2, 2, 2, 2, 1)])
def test_perfect_play_is_the_first_of_the_best(rows):
    for move in perfect_play(rows):
        best = [move for move in moves_of(rows) if depth(tuple(after(list(rows), move))) == depth(rows) - 1]
        assert move == best[0]
        rows = tuple(after(list(rows), move))
    assert rows == ()


def asked(*args):
    told = subprocess.run([CHOMP, "query", "--json", "--table", "none", *args], check=True, capture_output=True)
    return json.loads(told.stdout)


@pytest.mark.parametrize("boards", [["5,4,2,1", "8x10", "[40]"], ["3x100", "0b100110", "9x6"]])
def test_a_sum_is_answered_as_the_program_does(boards):
    told = asked(" + ".join(boards))
    values = [board["value"] for board in told["sum"]]
    moves = [tuple(move) for move in told["winning_moves"]]
    assert solve_sum(boards) == (told["value"], values, moves)


@pytest.mark.parametrize("position", ["8x10", "3x100", "70,1^69", "1x300", "0b100110"])
def test_perfect_play_is_as_the_program_tells_it(position):
    line = [tuple(move) for move in asked("--line", position)["line"]]
    assert perfect_play(position) == line
    assert perfect_play(iter(asked("--no-moves", position)["rows"])) == line


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda: solve_sum(["20x20", [1]]), ValueError, "20x20 is too large: at least"),
        (lambda: solve_sum([[2, 1], []]), ValueError, "a board without cells"),
        (lambda: solve_sum([[2, 3]]), ValueError, "longest first"),
        (lambda: solve_sum(["3x3 + 2"]), ValueError, "is not a position"),
        (lambda: solve_sum("3x3 + 2"), TypeError, "str"),
        (lambda: perfect_play("20x20"), ValueError, "positions are inside"),
        (lambda: perfect_play([300_000]), ValueError, "300001 bits"),
        (lambda: perfect_play("cake"), ValueError, "is not a position"),
    ],
)
def test_what_has_no_answer_is_refused(ask, error, said):
    with pytest.raises(error, match=said):
        ask()
