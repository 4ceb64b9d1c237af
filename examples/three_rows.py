"""Tests conjectures about three-rowed Chomp on what chomp box --periods found.

    chomp box 3x3000 --periods --json > three.json
    python3 three_rows.py three.json [THIRD SECOND]

THIRD and SECOND are the longest third and second rows to look at: the largest of the file if they are left out.

For a third row r, first row - second row of the losing positions has a period from the second row N(r) on, or nothing
is losing from there on. In the latter case N, N, r with N = N(r) - 1 is losing, so (3, r + 1) wins on 3xN. On all
other 3xn, n > 1, a move in row 2 wins.
"""

import itertools
import json
import sys
from collections import Counter
from math import isqrt, sqrt

table = json.load(open(sys.argv[1]))
longest, columns = map(int, sys.argv[2:] or [table["columns"]] * 2)
tails = [tail for tail in table["tails"] if tail["tail"][0] <= longest]
undecided = [tail["tail"][0] for tail in tails if not tail["proved"]]
end = min(undecided, default=longest + 1)
dead = [(tail["tail"][0], tail["from"] - 1) for tail in tails if tail["from"] and tail["period"] is None]
sure = [(r, n) for r, n in dead if r < end]
print(f"third rows decided: to {end - 1}; nothing is losing in the end with {len(sure)} of them, {len(dead)} in all")

differences = [(tail["from"] - sqrt(2) * tail["tail"][0], tail["tail"][0]) for tail in tails[:end]]
for name, (value, r) in ("least", min(differences)), ("greatest", max(differences)):
    print(f"{name} N(r) - sqrt(2) r: {value:.3f}, r = {r}")

# floor((1 + sqrt(2) / 2) n) = n + floor(sqrt(n^2 / 2))
offsets = Counter(r - n - isqrt(n * n // 2) for n, (r, _) in enumerate(sure, 1))
print("r_n - floor((1 + sqrt(2) / 2) n), how often:", dict(sorted(offsets.items())))

third = {n for _, n in dead}
sides = ((2, lambda n: n not in third), (3, third.__contains__)) if longest >= columns else ()
for row, is_in in sides:
    runs = Counter(len(list(run)) for key, run in itertools.groupby(range(2, columns + 1), is_in) if key)
    count = sum(length * often for length, often in runs.items())
    print(f"columns won in row {row}: {count}; runs, by length:", dict(sorted(runs.items())))

# Runs of second rows q, q + 1, ... for which one first row is losing with third rows whose period has begun. Bit d of
# a set stands for the first row q + d, so a set of q is compared with that of q - 1 shifted by one.
begins = {}
for tail in tails[:end]:
    if tail.get("repeats"):
        begins.setdefault(tail["from"], []).append(tail["repeats"])
sets, runs, counts = {}, [], Counter()
for q in range(columns + 1):
    for repeats in begins.get(q, ()):
        for phase, difference in enumerate(repeats):
            key = len(repeats), (q + phase) % len(repeats)
            sets[key] = sets.get(key, 0) | 1 << difference
    here, longer = 0, []
    for (period, phase), bits in sets.items():
        here |= bits if q % period == phase else 0
    for bits in [here, *(bits >> 1 & here for bits in runs)]:
        longer.append(bits)
        counts[len(longer)] += bits.bit_count()
        if not bits:
            break
    runs = longer
if begins:
    print("runs of second rows with the same first row, of at least each length:", dict(sorted((+counts).items())))
