"""What all tests use: the program, which CHOMP_PROGRAM names, and a small table."""

import os
import subprocess

import pytest

CHOMP = os.environ["CHOMP_PROGRAM"]
BITS = 18


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("table")
    subprocess.run([CHOMP, "run", "--bits", str(BITS), "--table", directory], check=True, capture_output=True)
    return directory
