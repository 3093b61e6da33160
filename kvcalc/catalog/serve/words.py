"""The words behind a program → flags with their values, as that engine's parser would take them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from kvcalc.catalog.serve.table import CommandLine, Flag, index

_TRUTH = {"true": "true", "false": "false", "1": "true", "0": "false", "on": "on", "off": "off", "auto": "auto"}
_NUMBER = re.compile(r"-\d[\d.eEkKmMgG]*\Z")
_LEVEL = re.compile(r"-O(\d)\Z")


class Given(NamedTuple):
    """A flag as it was typed, and what stands behind it. `flag` is None where no version has it."""

    typed: str
    flag: Flag | None
    values: tuple[str, ...] = ()
    path: str = ""  # of a dotted flag: method, of --speculative-config.method
    nearest: str | None = None  # of an unknown one

    @property
    def value(self) -> str:
        return self.values[-1] if self.values else ""


class Positional(NamedTuple):
    """A word that belongs to no flag."""

    word: str


def flags_in(words: Sequence[str], line: CommandLine) -> Iterator[Given | Positional]:
    """Every flag and every other word, in order."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not _is_flag(word):
            yield Positional(word)
            continue
        level = _LEVEL.match(word) if line.allows("levels") else None
        name, sign, attached = ("-O", "=", level[1]) if level else word.partition("=")
        found = _found(name, line)
        if sign and found.flag is not None and not (level or line.allows("equals")):
            found = found._replace(flag=None, nearest=found.flag.name)  # this parser takes the word as one name
        values, used = _behind(found, attached if sign else None, words[at:])
        at += used
        yield found._replace(values=values)


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not _NUMBER.match(word)


def _found(typed: str, line: CommandLine) -> Given:
    known = index(line.id)
    name, dot, path = typed.partition(".") if line.allows("dotted") else (typed, "", "")
    if line.allows("underscores"):
        name = name.replace("_", "-") if name.startswith("--") else name
    flag = known.get(name)
    if flag is not None and name in flag.off:
        return Given(typed, flag, ("false",))
    if flag is None and line.allows("no_forms") and name.startswith("--no-"):
        flag = known.get("--" + name[len("--no-") :])
        if flag is not None and flag.arity == "none":
            return Given(typed, flag, ("false",))
        flag = None
    if flag is None and line.allows("prefixes") and name.startswith("--"):
        flag = _by_beginning(name, known)
    if flag is None:
        spellings = [one for one in known if one.startswith("-")]
        close = get_close_matches(name, spellings, n=1, cutoff=0.7)
        return Given(typed, None, nearest=close[0] if close else None)
    return Given(typed, flag, path=path if dot else "")


def _by_beginning(name: str, known: Mapping[str, Flag]) -> Flag | None:
    """argparse takes any beginning that only one flag has."""
    found = {flag.names: flag for spelling, flag in known.items() if spelling.startswith(name)}
    return next(iter(found.values())) if len(found) == 1 else None


def _behind(found: Given, attached: str | None, rest: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The flag's values, and how many of the following words they are."""
    following = rest[0] if rest else None
    arity = found.flag.arity if found.flag else "unknown"
    if arity == "none":
        if found.values:  # the spelling itself turns it off
            return found.values, 0
        if attached is not None:
            return (_TRUTH.get(attached.lower(), attached),), 0
        if following is not None and following.lower() in ("true", "false"):
            return (following.lower(),), 1
        return ("true",), 0
    if attached is not None:
        return (attached,), 0
    if arity == "maybe":
        told = _TRUTH.get((following or "").lower())
        return ((told,), 1) if told else (("on",), 0)
    if following is None or _is_flag(following):
        return (), 0
    if arity == "some":
        end = next((i for i, word in enumerate(rest) if _is_flag(word)), len(rest))
        return tuple(rest[:end]), end
    return (following,), 1
