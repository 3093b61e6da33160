"""Reads a command line that is as plain as most are, without Typer, whose import takes longer than the answer.

Typer reads everything else: help, completion, mistakes, and spellings that are rare. The tests hold that where both
read a line, they read the same.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from kvcalc.cli.flags import Flag


class Line(NamedTuple):
    """What a command line says: the words that are no flags, and the flags by field."""

    names: list[str]
    flags: dict[str, Any]


def flag_words(words: Sequence[str]) -> list[str]:
    """The words of a line that name flags, as the tables spell them."""
    return [normal(word.partition("=")[0]) for word in words if word.startswith("-") and word != "-"]


def normal(word: str) -> str:
    """A flag as the tables spell it; vLLM takes --max_model_len too."""
    return word.replace("_", "-")


def read(words: Sequence[str], spelled: Mapping[str, Flag], repeated: Collection[str]) -> Line | None:
    """The line's names and flags; None: there is something in it that Typer has to look at.

    Args:
        words: after the command's name.
        spelled: every flag of the command by each of its spellings.
        repeated: fields of flags that may be given several times, beside those that always may.

    >>> gpu = Flag("gpu", ("--gpu",), "GPU", "", "")
    >>> read(["llama-3-8b", "--gpu=l4"], {"--gpu": gpu}, ())
    Line(names=['llama-3-8b'], flags={'gpu': 'l4'})
    >>> read(["llama-3-8b", "--gpu"], {"--gpu": gpu}, ())
    """
    line = Line([], {})
    left = iter(words)
    for word in left:
        if not word.startswith("-"):
            line.names.append(word)
            continue
        name, equals, value = word.partition("=")
        flag = spelled.get(normal(name))
        if flag is None or (equals and not name.startswith("--")):
            return None
        several = flag.kind == "texts" or flag.field in repeated
        if flag.kind in ("switch", "bool"):
            if equals:
                return None
            said: Any = normal(name) not in {names.partition("/")[2] for names in flag.names}
        else:
            said = value if equals else next(left, "")
            if not said or (said.startswith("-") and not equals and said != "-"):
                return None
        if several:
            line.flags.setdefault(flag.field, []).append(said)
        elif flag.field in line.flags:
            return None
        else:
            line.flags[flag.field] = said
    return line
