"""Checks a certificate of `chomp certify`: that a first move wins at Chomp, from the rules alone.

    python3 check_certificate.py FILE

After every move from a position of the file, but the one that takes the poison, some reply must lead
to a position of the file again, or to its mirror image. Then whoever moves from one of them loses.
"""

import re
import sys

LINE_MAX, BITS_MAX = 1000, 64


def lines(file):
    """The lines after the comments, as bytes, with their numbers."""
    number, is_comment = 0, True
    while line := file.readline(LINE_MAX + 1):
        number += 1
        if len(line) > LINE_MAX and line[-1:] != b"\n":
            raise ValueError(f"line {number} is too long")
        is_comment = is_comment and line[:1] == b"#"
        if not is_comment:
            yield line.removesuffix(b"\n"), number


def numbers(pattern, line=b"", number="last"):
    """The numbers in a line, which have one or two digits."""
    if not re.fullmatch(pattern.replace(b"N", rb"[1-9][0-9]?"), line):
        raise ValueError(f"line {number} should not be {line[:40]!r}")
    return list(map(int, re.findall(rb"[0-9]+", line)))


def check(file):
    """What the certificate in this binary file proves. Fails with a ValueError if it proves nothing."""
    text = lines(file)
    m, n = numbers(rb"board NxN", *next(text, ()))
    if m + n > BITS_MAX:
        raise ValueError(f"{m}x{n} is too large")
    first = tuple(numbers(rb"move N,N", *next(text, ())))

    def cells(rows):
        """The cells of a position as the bits of a number, n bits for each row of the board."""
        return sum(((1 << row) - 1) << n * i for i, row in enumerate(rows))

    # The cells of the board that are not taken, by move; not of the move that takes the poison.
    left_by = {
        (i + 1, j + 1): cells([n] * i + [j] * (m - i)) for i in range(m) for j in range(n) if i or j
    }
    kept = list(left_by.values())
    closed, positions = set(), []
    for line, number in text:
        rows = numbers(rb"N(,N)*", line, number)
        if rows != sorted(rows, reverse=True) or rows[0] > n or len(rows) > m:
            raise ValueError(f"line {number} is no position on {m}x{n}")
        if cells(rows) in closed:
            raise ValueError(f"line {number} has a position again, or its mirror image")
        mirror = [sum(row > j for row in rows) for j in range(rows[0])]
        images = [cells(image) for image in (rows, mirror) if len(image) <= m and image[0] <= n]
        closed.update(images)
        positions.append((images[0], number))
    if left_by.get(first) not in closed:
        raise ValueError(f"no position is what the move {first} leaves")
    answered = set()
    for position, number in positions:
        if len(answered) > 5_000_000:
            answered.clear()  # it only saves time
        for move, others in left_by.items():
            left = position & others
            if left != position and left not in answered:
                if left in closed or closed.isdisjoint(map(left.__and__, kept)):
                    raise ValueError(f"line {number}: the move {move} has no reply")
                answered.add(left)
    return "({},{}) wins on {}x{}: {} positions".format(*first, m, n, len(positions))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], "rb") as file:
            print(check(file))
    except (OSError, ValueError) as error:
        sys.exit(f"{sys.argv[1]} proves nothing: {error}")
