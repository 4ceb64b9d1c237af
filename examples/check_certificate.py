"""Checks a certificate of `chomp certify`: that a first move wins at Chomp, from the rules alone.

    python3 check_certificate.py FILE

After every move from a position of the file, but the one that takes the poison, some reply must lead
to a position of the file again, or to its mirror image. Then whoever moves from one of them loses.
"""

import sys


def mirror(rows):
    return tuple(sum(row > j for row in rows) for j in range(rows[0]))


def moves(rows, hole=(0, 0)):
    """The moves that leave the poison, and what they leave; not those that take all around a hole.

    As a reply, such a move leaves what it would have left before, so no position of the file.
    """
    for j, height in enumerate(mirror(rows)):
        for i in range(hole[0] if j < hole[1] else 0, height):
            if i or j:
                yield (i + 1, j + 1), rows[:i] + (j,) * (height - i if j else 0) + rows[height:]


def main():
    lines = [line.strip() for line in open(sys.argv[1]) if line.strip() and line[0] != "#"]
    (m, n), (i, j) = lines[0].removeprefix("board ").split("x"), lines[1].removeprefix("move ").split(",")
    positions = {tuple(map(int, line.split(","))) for line in lines[2:]}
    closed = positions | {mirror(rows) for rows in positions}
    start = dict(moves((int(n),) * int(m)))[int(i), int(j)]
    if start not in closed:
        sys.exit(f"the position that ({i},{j}) leaves is not there")
    answered = set()
    for rows in positions:
        if list(rows) != sorted(rows, reverse=True) or min(rows) < 1:
            sys.exit(f"{rows} is no position")
        if len(answered) > 1_000_000:
            answered.clear()  # it only saves time
        for move, left in moves(rows):
            if left not in answered and not any(reply in closed for _, reply in moves(left, move)):
                sys.exit(f"from {rows} the move {move} has no reply")
            answered.add(left)
    print(f"({i},{j}) wins on {m}x{n}: {len(positions)} positions")


main()
