"""A start-up log of vLLM, SGLang, TensorRT-LLM or llama.cpp → LogFacts.

Lines are tried against the table of logs.toml; colours, timestamps, prefixes of containers, wrapped lines and
interleaved ranks do not matter. The text is read line by line, so a log of any size will do.

Source: `logs.toml`; how ranks and lines mix is read off published logs
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TextIO

from kvcalc.engines.logs.facts import LogCache, LogFacts, LogLine, Refusal, Value
from kvcalc.engines.logs.patterns import Pattern, values_of
from kvcalc.engines.logs.result import facts_of
from kvcalc.engines.logs.settings import engine_of, settings_in
from kvcalc.engines.logs.starts import Found, Start, Starts, stream_of
from kvcalc.engines.logs.wrapped import Line, lines_of
from kvcalc.errors import KvcalcError

LONGEST_LINE = 20_000  # characters; a start-up line is shorter, and what follows is not needed
MOST_OF_A_LINE = 1_000_000  # characters: no server says as much in one line
MOST_NOTES = 2_000  # lines that are kept as evidence
MOST_STREAMS = 100
MOST_LINES = 20_000  # that say something, of one container
_RANK = re.compile(
    r"(?<![A-Za-z])((?:TP|PP|DP|EP|DCP)\d{1,4}(?:[_ ](?:TP|PP|DP|EP|DCP)\d{1,4}){0,4})\b|rank[ =](\d{1,4})"
)
_SMALLEST = {"pool", "tokens", "blocks", "concurrency", "estimated_max_len", "free_before_load", "free_after_load"}
_LARGEST = {
    *("weights", "consumed", "non_torch", "activation", "activation_with_graphs", "graphs", "needed", "total"),
    "cells",
}
# Settings that some lines print on their own.
_SETTINGS = {
    "max_model_len": "max_model_len",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "max_num_seqs": "max_num_seqs",
    "utilization": "gpu_memory_utilization",
    "decode_context_parallel": "decode_context_parallel_size",
    "block_size": "block_size",
}
NOTHING_FOUND = "no start-up line of vLLM, SGLang, TensorRT-LLM or llama.cpp in this text"
AMBIGUOUS = "{} lines say what fits and contradict each other: they are of several starts, or of ranks that differ"


def read_log(text: str | Iterable[str]) -> LogFacts:
    """The facts of the last start in a log that says anything of memory.

    Args:
        text: the whole text, or its lines (an open file); see `bounded_lines` for files of unknown origin.

    Raises KvcalcError where no line is of a known engine.
    """
    return read_starts(text)[-1]


def read_starts(text: str | Iterable[str]) -> tuple[LogFacts, ...]:
    """Every start in a log, in the order of their last lines; those that say nothing of memory only if none does.

    Raises KvcalcError where no line is of a known engine, or all could be of either of several starts.
    """
    streams: dict[str, list[Said]] = {}
    lines = text.splitlines() if isinstance(text, str) else text
    for line in lines_of(raw[:LONGEST_LINE] for raw in lines):
        name, rest = stream_of(line.text)
        said = _said(line, rest)
        if said is not None:
            kept = streams.setdefault(name if name in streams or len(streams) < MOST_STREAMS else "", [])
            kept.append(said)
            del kept[:-MOST_LINES]
    collected = [_collected(kept) for kept in streams.values()]
    starts = sorted((start for stream in collected for start in stream.all), key=lambda start: start.last)
    heard = [start for start in starts if start.says_anything]
    told = [start for start in heard if start.says_memory] or heard[-1:]
    aside = sum(stream.aside for stream in collected)
    if not told and aside:
        raise KvcalcError(AMBIGUOUS.format(aside), hint="give the output of one start, or of one rank of it")
    if not told:
        raise KvcalcError(NOTHING_FOUND, hint="give the output of the server from its first line on")
    return tuple(facts_of(start, heard, aside) for start in told)


def bounded_lines(file: TextIO) -> Iterator[str]:
    """Lines of a file, a long one in pieces, so that memory stays small; of an endless one the beginning."""
    told = 0
    while line := file.readline(LONGEST_LINE):
        if told < MOST_OF_A_LINE:
            yield line
        told = 0 if line.endswith("\n") else told + len(line)


class Said(NamedTuple):
    """A line that says something."""

    line: Line
    rest: str  # without the container's name
    engine: str | None
    found: Found
    settings: dict[str, Value]


def _said(line: Line, rest: str) -> Said | None:
    settled = stream_of(line.settled)[1]
    lowered = settled.lower()
    settings = settings_in(settled, lowered)
    if not line.found and not settings:
        return None
    found: Found = [(pattern, values_of(match)) for pattern, match in line.found]
    voted = [pattern.engine for pattern, _ in found if pattern.engine != "any"]
    engine = voted[0] if voted else engine_of(lowered) if settings else None
    return Said(line, rest, engine, found, settings)


def _collected(lines: Sequence[Said]) -> Starts:
    """Twice where the first time shows that starts overlap: then what came before that is known is doubtful too."""
    starts = Starts()
    for said in lines:
        _take(said, starts)
    if not starts.mixed:
        return starts
    again = Starts(frozenset(starts.mixed))
    for said in lines:
        _take(said, again)
    return again


def _take(said: Said, starts: Starts) -> None:
    start = starts.of_line(said.rest, said.line.number, said.engine, said.found, said.settings)
    if start is None:
        return
    start.settings |= said.settings
    rank = _rank(said.rest) if said.found else None
    for pattern, values in said.found:
        if pattern.engine in ("any", said.engine):
            _note(start, pattern, dict(values), said.line, rank)


def _rank(line: str) -> str | None:
    match = _RANK.search(line[:400])
    if match is None:
        return None
    return match[1] or f"rank {match[2]}"


def _note(start: Start, pattern: Pattern, values: dict[str, str | int | float], line: Line, rank: str | None) -> None:
    if pattern.engine != "any":
        start.votes[pattern.engine] += 1
    if pattern.refusal and len(start.refusals) < MOST_NOTES:
        start.refusals.append(Refusal(kind=pattern.refusal, text=line.text.strip()[:500], number=line.number))
    if len(start.lines) < MOST_NOTES:
        start.lines.extend(
            LogLine(fact=fact, value=value, number=line.number, rank=rank, source=pattern.source)
            for fact, value in values.items()
        )
    if pattern.buffer is not None and pattern.buffer in values:
        where, size = (pattern.buffer, str(values.pop("device", ""))), int(values.pop(pattern.buffer))
        # Layers with and without a window have caches of their own on the same device; other buffers are one each.
        start.buffers[where] = size + (start.buffers.get(where, 0) if pattern.buffer == "pool" else 0)
    if pattern.cache:
        start.caches.append((rank, _cache(pattern.cache, values)))
        return
    for fact, value in values.items():
        _merge(start, fact, value)


def _cache(kind: str, values: dict[str, str | int | float]) -> LogCache:
    def summed(*names: str) -> int | None:
        parts = [int(values[name]) for name in names if name in values]
        return sum(parts) if parts else None

    def number(name: str) -> int | None:
        return int(values[name]) if name in values else None

    def word(name: str) -> str | None:
        return str(values[name]) if name in values else None

    return LogCache(
        kind=kind,
        size_bytes=number("size") if "size" in values else summed("k", "v", "conv", "state"),
        tokens=number("tokens"),
        slots=number("slots"),
        layers=number("layers"),
        streams=_streams(word("sequences")),
        k_bytes=number("k"),
        v_bytes=number("v"),
        k_type=word("k_type"),
        v_type=word("v_type"),
    )


def _streams(sequences: str | None) -> int | None:
    """Of "4/1 seqs", the second number."""
    _, slash, streams = (sequences or "").partition("/")
    return int(streams) if slash and streams.isdigit() else None


def _merge(start: Start, fact: str, value: Value) -> None:
    """Several ranks say the same thing: the engine follows the one with the least room."""
    old = start.facts.get(fact)
    if isinstance(old, int | float) and isinstance(value, int | float):
        if fact in _SMALLEST:
            value = min(old, value)
        elif fact in _LARGEST:
            value = max(old, value)
    start.facts[fact] = value
    if fact in _SETTINGS:
        start.settings[_SETTINGS[fact]] = value
