"""What the third rows of three-rowed Chomp say about three conjectures.

    chomp box 3x3000 --periods --json > three.json
    python3 three_rows.py three.json

For a third row r, N(r) is the length for which N, N, r is losing, if there is one: nothing with longer
second rows is. Then (3, r + 1) wins on 3xN. On all other 3xn, n > 1, a move in row 2 wins.
"""

import itertools
import json
import sys
from collections import Counter
from math import isqrt, sqrt

table = json.load(open(sys.argv[1]))
columns, tails = table["columns"], table["tails"]
undecided = [tail["tail"][0] for tail in tails if not tail["proved"]]
end = min(undecided, default=columns + 1)
dead = [(tail["tail"][0], tail["from"] - 1) for tail in tails if tail["from"] and tail["period"] is None]
sure = [(r, n) for r, n in dead if r < end]
print(f"third rows decided: to {end - 1}; with N(r): {len(sure)} of them, {len(dead)} in all")

differences = [(n - sqrt(2) * r, r) for r, n in sure]
for name, (value, r) in ("least", min(differences)), ("greatest", max(differences)):
    print(f"{name} N(r) - sqrt(2) r: {value:.3f}, r = {r}")

# floor((1 + sqrt(2) / 2) n) = n + floor(sqrt(n^2 / 2))
offsets = Counter(r - n - isqrt(n * n // 2) for n, (r, _) in enumerate(sure, 1))
print("r_n - floor((1 + sqrt(2) / 2) n), how often:", dict(sorted(offsets.items())))

third = {n for _, n in dead}
for row, is_in in (2, lambda n: n not in third), (3, third.__contains__):
    runs = Counter(len(list(run)) for key, run in itertools.groupby(range(2, columns + 1), is_in) if key)
    count = sum(length * often for length, often in runs.items())
    print(f"columns won in row {row}: {count}; runs, by length:", dict(sorted(runs.items())))
