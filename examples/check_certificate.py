"""Checks a certificate of `chomp certify`: that a first move wins at Chomp, from the rules alone.

    python3 check_certificate.py FILE

After every move from a position of the file, but the one that takes the poison, some reply must lead
to a position of the file again, or to its mirror image. Then whoever moves from one of them loses.
"""

import sys


def main():
    lines = [line.strip() for line in open(sys.argv[1]) if line.strip() and line[0] != "#"]
    m, n = map(int, lines[0].removeprefix("board ").split("x"))
    first = tuple(map(int, lines[1].removeprefix("move ").split(",")))

    def cells(rows):
        """The cells of a position as the bits of a number, n bits for each row of the board."""
        return sum(((1 << row) - 1) << n * i for i, row in enumerate(rows))

    # The cells of the board that are not taken, by move; not of the move that takes the poison.
    left_by = {
        (i + 1, j + 1): cells([n] * i + [j] * (m - i)) for i in range(m) for j in range(n) if i or j
    }
    kept = list(left_by.values())
    closed, positions = set(), []
    for line in lines[2:]:
        rows = list(map(int, line.split(",")))
        if rows != sorted(rows, reverse=True) or rows[-1] < 1:
            sys.exit(f"{line} is no position")
        mirror = [sum(row > j for row in rows) for j in range(rows[0])]
        images = [cells(image) for image in (rows, mirror) if len(image) <= m and image[0] <= n]
        if not images:
            sys.exit(f"{line} does not fit on the board")
        closed.update(images)
        positions.append(images[0])
    if left_by[first] not in closed:
        sys.exit(f"the position that {first} leaves is not there")
    answered = set()
    for position, line in zip(positions, lines[2:]):
        if len(answered) > 5_000_000:
            answered.clear()  # it only saves time
        for move, others in left_by.items():
            left = position & others
            if left != position and left not in answered:
                if left in closed or closed.isdisjoint(map(left.__and__, kept)):
                    sys.exit(f"after {line} the move {move} has no reply")
                answered.add(left)
    print("({},{}) wins on {}x{}: {} positions".format(*first, m, n, len(positions)))


main()
