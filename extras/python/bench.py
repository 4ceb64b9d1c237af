"""Times a million random positions: python bench.py TABLE [chomp]. With the program's name, its own time too."""

import subprocess
import sys
import time

import numpy as np

from chomp_table import Table

COUNT = 1_000_000

table = Table(sys.argv[1])
random = np.random.default_rng(1)
words = random.integers(1, 2 ** (table.bits - 1), COUNT, dtype=np.uint64) << np.uint64(1)
for _ in range(3):
    start = time.perf_counter()
    losing = table.are_losing(words)
    print(f"{time.perf_counter() - start:.2f} s for {COUNT:,} positions of {table.bits} bits, {losing.sum():,} losing")
if len(sys.argv) > 2:
    text = "".join(f"0b{word:b}\n" for word in words.tolist())
    start = time.perf_counter()
    subprocess.run([sys.argv[2], "query", "--no-moves", "--table", sys.argv[1]], input=text, text=True, check=True, stdout=subprocess.DEVNULL)
    print(f"{time.perf_counter() - start:.2f} s by {sys.argv[2]} query --no-moves")
