"""JSON and CSV: plain numbers, one table."""

import csv
import io
import json
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.render.machine import to_csv
from kvcalc.results.base import Figure, Report, schema_name
from kvcalc.specs.base import Assumption

FIGURE = Figure(name="a", value=6, unit="bytes", formula="2 * x", inputs={"x": 3}, source="arithmetic")


class Answer(Report):
    command: ClassVar[str] = "size"
    result: dict[str, float | None]


def test_the_envelope() -> None:
    report = Answer(
        inputs={"model": "m"},
        result={"bytes": 6, "none": None},
        figures=(FIGURE,),
        assumptions=(Assumption(name="price", value=2, why="given"),),
    )
    envelope = json.loads(report.to_json())
    assert envelope["schema"] == schema_name("size")
    assert envelope["result"] == {"bytes": 6, "none": None}
    assert envelope["assumptions"] == [{"name": "price", "value": 2, "why": "given"}]
    assert not {"figures", "warnings"} & set(envelope)
    assert json.loads(report.to_json(explain=True))["figures"][0]["formula"] == "2 * x"


def test_warnings_are_there_only_if_there_are_any() -> None:
    report = Answer(inputs={}, result={}, warnings=("old price",))
    assert json.loads(report.to_json())["warnings"] == ["old price"]


def test_text_is_not_escaped() -> None:
    assert "µs ×" in Answer(inputs={"unit": "µs ×"}, result={}).to_json()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_json_has_not_never_come_out(value: float) -> None:
    try:
        text = Answer(inputs={}, result={"a": value}).to_json()
    except ValueError:
        return
    json.loads(text, parse_constant=lambda name: pytest.fail(name))


def test_nested_values_are_dotted_columns_and_lists_are_left_out() -> None:
    text = to_csv([{"gpu": "l4", "estimate": {"value": 1.5, "low": 1.0}, "operators": [1, 2]}])
    assert text == "gpu,estimate.value,estimate.low\nl4,1.5,1.0\n"


def test_rows_may_have_different_keys() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv([{"a": 1}, {"b": 2}]))))
    assert rows == [{"a": "1", "b": ""}, {"a": "", "b": "2"}]


# What a terminal may see and no spreadsheet takes for a formula is written as it is.
TEXT = st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"), include_characters="\n"), max_size=9)
PLAIN = TEXT.filter(lambda text: not text.startswith(("=", "+", "-", "@")))


@given(st.lists(st.dictionaries(st.sampled_from("abc"), PLAIN | st.integers(), min_size=3), min_size=1))
def test_csv_reads_back(rows: list[dict[str, str | int]]) -> None:
    back = list(csv.DictReader(io.StringIO(to_csv(rows), newline="")))
    assert back == [{name: str(value) for name, value in row.items()} for row in rows]


@given(st.text(max_size=9))
def test_no_cell_is_a_formula_or_a_control(text: str) -> None:
    ((found,),) = csv.reader(io.StringIO(to_csv([{"a": text}]).partition("\n")[2] or '""', newline="")) or [("",)]
    assert not found.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert not set(found) & {chr(code) for code in (*range(10), *range(11, 32), *range(127, 160))}
