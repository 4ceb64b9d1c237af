"""What docs/PYTHON.md says of the small questions is so."""

import pathlib
import re

import chomp_table
import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "PYTHON.md"


def claims():
    for line in PAGE.read_text().splitlines():
        said = re.fullmatch(r"(\w+(?:\.\w+)?\(.*\)) +# (.*?)(?:: .*)?", line)
        if said and "Table(" not in said[1]:
            yield said.groups()


@pytest.mark.parametrize(("question", "answer"), list(claims()))
def test_an_answer(directory, question, answer):
    names = vars(chomp_table) | {"table": chomp_table.Table(directory)}
    assert eval(question, names) == eval(answer, names)  # noqa: S307


def test_there_are_answers():
    assert len(list(claims())) == 7
