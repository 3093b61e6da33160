"""The tables of flags hold together."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.serve.meaning import MEANINGS
from kvcalc.catalog.serve.served import read_command
from kvcalc.catalog.serve.shell import split
from kvcalc.catalog.serve.table import COMMAND_LINES, whole
from kvcalc.errors import KvcalcError

READS = {"text", "tokens", "count", "number", "bytes", "gib", "on", "off", "object", "file", "maybe", "path"}


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_each_spelling_means_one_flag(name: str) -> None:
    line = whole(name)
    spellings = [spelling for flag in line.flags for spelling in (*flag.names, *flag.off)]
    twice = {spelling for spelling in spellings if spellings.count(spelling) > 1}
    # a flag may come back in another form: those of versions that do not meet
    assert not twice, twice


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_flags_are_of_known_kinds(name: str) -> None:
    line = whole(name)
    assert line.engine in MEANINGS
    assert line.about["source"]
    assert line.about["read"]
    for flag in line.flags:
        assert flag.use != "used" or flag.reads in READS
        assert flag.use != "not modelled" or flag.changes in ("memory", "the time of a step", "which requests run")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for prefix in ("", "vllm serve m ", "llama-server -m m "):
        with suppress(KvcalcError):
            assert read_command(prefix + text).engine


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=("C",)), min_size=1), max_size=6))
def test_quoted_words_come_back(words: list[str]) -> None:
    import shlex

    joined = " ".join(["run", *("'" + word.replace("'", "'\\''") + "'" for word in words)])
    assert split(joined) == [shlex.split(joined)]
