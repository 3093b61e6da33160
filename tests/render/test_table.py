"""Pages as text: alignment, width, colour."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.render.page import Bars, Facts, Page, Table, Text
from kvcalc.render.table import WIDTH, bar, render, table_lines, wants_colour

WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    table = Table(columns=("GPU", "tokens"), rows=(("l4", "33,104"), ("h100-sxm", "7")))
    assert table_lines(table) == [
        "  GPU       tokens",
        "  l4        33,104",
        "  h100-sxm       7",
    ]


def test_a_heading_of_several_lines_is_set_low() -> None:
    table = Table(columns=("model", "per token\nat first"), rows=(("a", "1"),))
    assert table_lines(table) == ["         per token", "  model   at first", "  a              1"]


def test_left_columns() -> None:
    table = Table(columns=("n", "limit"), rows=(("1", "memory"), ("22", "link")), left=frozenset({1}))
    assert table_lines(table) == ["   n  limit", "   1  memory", "  22  link"]


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=8))
def test_cells_are_never_cut(rows: list[tuple[str, str, str]]) -> None:
    lines = table_lines(Table(columns=("a", "b", "c"), rows=tuple(rows)))
    assert [tuple(line.split()) for line in lines[1:]] == rows


def test_a_verdict_stands_beside_the_title_if_there_is_room() -> None:
    assert render(Page(title="A on B", verdict="fits", good=True, blocks=())) == "A on B  fits\n"


def test_a_long_verdict_stands_below_in_as_many_lines_as_it_takes() -> None:
    page = Page(title="T" * 60, verdict="does not fit: " + "word " * 20, good=False, blocks=())
    lines = render(page).splitlines()
    assert lines[0] == "T" * 60
    assert lines[1].startswith("  does not fit: word")
    assert max(map(len, lines)) <= WIDTH


def test_a_long_title_goes_on() -> None:
    lines = render(Page(title="KV cache of " + ", ".join(["some-model-7b"] * 9), blocks=())).splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("  some-model-7b")


def test_remarks_of_facts_stand_in_their_own_column() -> None:
    facts = Facts(title="Memory", rows=(("pool", "1 GiB", "a remark " * 9), ("weights", "15 GiB", "")))
    lines = render(Page(title="t", blocks=(facts,))).splitlines()[2:]
    assert lines[0] == "Memory"
    assert lines[1].startswith("  pool      1 GiB  a remark")
    assert lines[2].startswith(" " * 19 + "remark")
    assert lines[-1] == "  weights  15 GiB"
    assert max(map(len, lines)) <= WIDTH


def test_sentences_go_on_indented() -> None:
    text = Text(lines=("one " * 30, "two"))
    lines = render(Page(title="t", blocks=(text,))).splitlines()[2:]
    assert [line[:6] for line in lines] == ["  one ", "    on", "  two"]


def test_what_cannot_be_broken_is_left_whole() -> None:
    url = "https://example.org/" + "x" * 90
    assert url in render(Page(title="t", blocks=(Text(lines=(url,)),)))


def test_assumptions_come_last() -> None:
    page = Page(title="t", blocks=(Text(lines=("body",)),), notes=("price 2: given",))
    assert render(page) == "t\n\n  body\n\nAssumed\n  · price 2: given\n"


@pytest.mark.parametrize("share, length", [(0.0, 0), (1.0, 30), (7.0, 30), (-1.0, 0), (0.5, 15)])
def test_bars_have_the_length_of_their_share(share: float, length: int) -> None:
    assert len(bar(share)) == length


@given(st.floats(0, 1), st.floats(0, 1))
def test_longer_shares_have_no_shorter_bars(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert len(bar(low)) <= len(bar(high))


def test_bars_give_way_to_long_labels() -> None:
    bars = Bars(rows=(("a label of forty characters, no more of it", 1.0, "100.00 GiB"), ("b", 0.1, "1 GiB")))
    lines = render(Page(title="t", blocks=(bars,))).splitlines()[2:]
    assert max(map(len, lines)) == WIDTH
    assert lines[0].endswith("█  100.00 GiB")
    assert lines[1].endswith("       1 GiB")


def test_colour_paints_and_changes_nothing_else() -> None:
    page = Page(
        title="title", verdict="fits", good=True, blocks=(Text(title="head", lines=("body",)),), notes=("a: b",)
    )
    painted = render(page, colour=True)
    assert "\x1b[32m" in painted
    assert re.sub(r"\x1b\[\d+m", "", painted) == render(page)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "environment, terminal, expected",
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),  # set and empty is not set: no-color.org
        ({"FORCE_COLOR": "1"}, False, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_who_gets_colour(
    environment: dict[str, str], terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(Terminal() if terminal else io.StringIO()) is expected
