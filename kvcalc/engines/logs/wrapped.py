"""Lines of a log, with what a terminal or a form has wrapped put together again.

Source: a judgement on logs as people paste them
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kvcalc.engines.logs.patterns import Pattern, patterns

_COLOURS = re.compile(r"\x1b\[[0-9;?]{0,30}[A-Za-z]")
# How a line begins that goes on with none: a process, a time, a level, a container, a name and a colon.
_BEGINS = re.compile(
    r"\s{0,8}(?:\(\w|\[|\d{2,4}[-/:]\d|[A-Z]{4,8} |\||[\w.-]{1,60}\s{1,20}\| |"
    r"non-default args|server_args=|args: |max_total_num_tokens=|"
    r"(?:[a-z]{1,20}_\w{1,60}|[\w.]{3,60}Error|build|main|srv|slot)\s{0,4}:\s)"
)
MOST_WRAPPED = 3  # lines that one may go on for
_LAST_WORD = re.compile(r"[^\s,;()]+$")
SHORTEST_WRAPPED = 20  # characters of a line that may go on in the next
Match = tuple[Pattern, "re.Match[str]"]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line as it stands in the file, and what the table finds in it and across its end."""

    text: str
    number: int
    found: Sequence[Match]
    settled: str = ""  # without a last word that the next line may go on with


def lines_of(raw: Iterable[str]) -> Iterator[Line]:
    """The lines without colours, each with its matches; one that a line and the next hold together is the first's.

    A number is never put together from two lines: which digits belong together is not certain.
    """
    waiting: list[Line] = []
    for number, text in enumerate(raw, start=1):
        plain = (_COLOURS.sub("", text) if "\x1b" in text else text).rstrip()
        waiting.append(Line(text=plain, number=number, found=matches(plain), settled=plain))
        if len(waiting) > MOST_WRAPPED:
            yield _with_next(waiting.pop(0), waiting)
    while waiting:
        yield _with_next(waiting.pop(0), waiting)


def matches(text: str) -> list[Match]:
    """Every pattern that a text matches, with the match."""
    lowered = text.lower()
    return [
        (pattern, match) for pattern in patterns() if pattern.key in lowered and (match := pattern.match.search(text))
    ]


def _with_next(line: Line, following: Sequence[Line]) -> Line:
    if not line.text or not following or not following[0].text or _BEGINS.match(following[0].text):
        return line
    end = len(line.text)
    # What ends where the line ends may be the beginning of a longer figure or name.
    torn, word = _is_torn(line.text, following[0].text), _is_torn_word(line.text, following[0].text)
    kept = [(pattern, match) for pattern, match in line.found if not ((torn or word) and _ends_in_value(match, end))]
    known = {pattern.key for pattern, _ in kept}
    across: list[Match] = []
    if not torn and end >= SHORTEST_WRAPPED:
        across = next((found for glue in (" ", "") if (found := _across(line.text, following, glue, known))), [])
    settled = _LAST_WORD.sub("", line.text) if torn or word else line.text
    return Line(text=line.text, number=line.number, found=[*kept, *across], settled=settled)


def _across(text: str, following: Sequence[Line], glue: str, known: set[str]) -> list[Match]:
    """What a line and the next hold together, each of its values in one of them."""
    joined, cut, ends = _joined(text, following, glue)
    found = []
    for pattern, match in matches(joined):
        spans = [match.span(name) for name in pattern.match.groupindex]
        whole = not any(start <= end < stop and start >= 0 and stop > end for end in ends for start, stop in spans)
        closed = not (cut and match.end() == len(joined))
        if match.start() < len(text) < match.end() and whole and closed and pattern.key not in known:
            found.append((pattern, match))
    return found


def _ends_in_value(match: "re.Match[str]", end: int) -> bool:
    return any(match.end(name) == end for name in match.re.groupindex)


def _is_torn(first: str, second: str) -> bool:
    return first[-1:] in tuple("0123456789.,") and second.lstrip()[:1] in tuple("0123456789.,")


def _is_torn_word(first: str, second: str) -> bool:
    """A name cut in two: what goes on with a capital letter or behind a space begins anew."""
    return bool(re.match(r"[a-z0-9._/-]", second)) and bool(re.search(r"[A-Za-z0-9._/-]$", first))


def _joined(text: str, following: Sequence[Line], glue: str) -> tuple[str, bool, list[int]]:
    """The lines in one, whether that ends within a number, and where each line ended."""
    ends: list[int] = []
    for line in following:
        if not line.text or _BEGINS.match(line.text):
            return text, False, ends
        if _is_torn(text, line.text):
            return text, True, ends
        ends.append(len(text))
        text += glue + line.text.strip()
    return text, False, ends
