"""Checks a certificate of `chomp certify`: that a first move wins at Chomp, from the rules alone.

    python3 check_certificate.py FILE

After every move from a position of the file, but the one that takes the poison, some reply must lead
to a position of the file again, or to its mirror image. Then whoever moves from one of them loses.
"""

import sys


def moves(rows):
    """The positions after each move that leaves the poison."""
    for i, length in enumerate(rows):
        for j in range(length):
            if i or j:
                left = rows[:i] + tuple(min(j, below) for below in rows[i:])
                yield (i + 1, j + 1), tuple(row for row in left if row)


def mirror(rows):
    return tuple(sum(row > j for row in rows) for j in range(rows[0]))


def main():
    lines = [line.strip() for line in open(sys.argv[1]) if line.strip() and line[0] != "#"]
    (m, n), (i, j) = lines[0].removeprefix("board ").split("x"), lines[1].removeprefix("move ").split(",")
    positions = {tuple(map(int, line.split(","))) for line in lines[2:]}
    closed = positions | {mirror(rows) for rows in positions}
    start = dict(moves((int(n),) * int(m)))[int(i), int(j)]
    if start not in closed:
        sys.exit(f"the position that ({i},{j}) leaves is not there")
    for rows in positions:
        if list(rows) != sorted(rows, reverse=True) or min(rows) < 1:
            sys.exit(f"{rows} is no position")
        for move, left in moves(rows):
            if not any(reply in closed for _, reply in moves(left)):
                sys.exit(f"from {rows} the move {move} has no reply")
    print(f"({i},{j}) wins on {m}x{n}: {len(positions)} positions")


main()
