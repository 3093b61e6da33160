"""A start-up log of vLLM, SGLang, TensorRT-LLM or llama.cpp → LogFacts.

Lines are tried against the table of logs.toml; colours, timestamps, prefixes of containers and interleaved ranks do
not matter. The text is read line by line, so a log of any size will do.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TextIO

from kvcalc.engines.logs.facts import LogCache, LogFacts, LogLine, Refusal, Value
from kvcalc.engines.logs.patterns import Pattern, patterns, values_of
from kvcalc.engines.logs.settings import settings_in
from kvcalc.errors import KvcalcError
from kvcalc.specs.build import build

LONGEST_LINE = 20_000  # characters; a start-up line is shorter, and what follows is not needed
MOST_NOTES = 2_000  # lines that are kept as evidence
_COLOURS = re.compile(r"\x1b\[[0-9;?]{0,30}[A-Za-z]")
_RANK = re.compile(
    r"(?<![A-Za-z])((?:TP|PP|DP|EP|DCP)\d{1,4}(?:[_ ](?:TP|PP|DP|EP|DCP)\d{1,4}){0,4})\b|rank[ =](\d{1,4})"
)
_SMALLEST = {"pool", "tokens", "blocks", "concurrency", "estimated_max_len", "free_before_load", "free_after_load"}
_LARGEST = {
    "weights",
    "consumed",
    "non_torch",
    "activation",
    "activation_with_graphs",
    "graphs",
    "needed",
    "total",
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
_BYTES = (
    *("total", "free", "requested", "weights", "consumed", "non_torch", "activation", "activation_with_graphs"),
    *("graphs", "graphs_estimate", "pool", "free_before_load", "free_after_load", "free_after_pool"),
    *("needed", "tried", "free_at_failure"),
)
_TEXT = ("version", "model", "model_file", "architecture", "gpu", "runner", "sampler")
_PLAIN = (*_TEXT, "blocks", "block_size", "tokens", "concurrency", "estimated_max_len", "encoder_tokens")
_CAPACITY = {"pool", "tokens", "blocks", "needed", "weights", "consumed"}
NOTHING_FOUND = "no start-up line of vLLM, SGLang, TensorRT-LLM or llama.cpp in this text"


class _Start:
    """What was collected of one start of the engine."""

    def __init__(self) -> None:
        self.facts: dict[str, Value] = {}
        self.settings: dict[str, Value] = {}
        self.buffers: dict[tuple[str, str], int] = {}
        self.caches: list[tuple[str | None, LogCache]] = []
        self.refusals: list[Refusal] = []
        self.lines: list[LogLine] = []
        self.votes: Counter[str] = Counter()

    @property
    def says_memory(self) -> bool:
        return bool(_CAPACITY & self.facts.keys() or self.caches or self.refusals or self.buffers)


def read_log(text: str | Iterable[str]) -> LogFacts:
    """The facts of a log.

    Args:
        text: the whole text, or its lines (an open file); see `bounded_lines` for files of unknown origin.

    Raises KvcalcError where no line is of a known engine.
    """
    starts = [_Start()]
    lines = text.splitlines() if isinstance(text, str) else text
    for number, raw in enumerate(lines, start=1):
        line = raw[:LONGEST_LINE]
        if "\x1b" in line:
            line = _COLOURS.sub("", line)
        _read_line(line.rstrip(), number, starts)
    told = [start for start in starts if start.says_memory]
    chosen = told[-1] if told else next((start for start in reversed(starts) if start.votes or start.settings), None)
    if chosen is None:
        raise KvcalcError(NOTHING_FOUND, hint="give the output of the server from its first line on")
    return _facts(chosen, len(starts))


def bounded_lines(file: TextIO) -> Iterator[str]:
    """Lines of a file, an endless one in pieces, so that memory stays small."""
    while line := file.readline(LONGEST_LINE):
        yield line


def _read_line(line: str, number: int, starts: list[_Start]) -> None:
    lowered = line.lower()
    found = [
        (pattern, match) for pattern in patterns() if pattern.key in lowered and (match := pattern.match.search(line))
    ]
    if found and starts[-1].says_memory and any(pattern.start for pattern, _ in found):
        starts.append(_Start())
    start = starts[-1]
    start.settings |= settings_in(line, lowered)
    rank = _rank(line) if found else None
    for pattern, match in found:
        _note(start, pattern, values_of(match), line, number, rank)


def _rank(line: str) -> str | None:
    match = _RANK.search(line[:400])
    if match is None:
        return None
    return match[1] or f"rank {match[2]}"


def _note(
    start: _Start, pattern: Pattern, values: dict[str, str | int | float], line: str, number: int, rank: str | None
) -> None:
    if pattern.engine != "any":
        start.votes[pattern.engine] += 1
    if pattern.refusal and len(start.refusals) < MOST_NOTES:
        start.refusals.append(Refusal(kind=pattern.refusal, text=line.strip()[:500], number=number))
    if len(start.lines) < MOST_NOTES:
        start.lines.extend(
            LogLine(fact=fact, value=value, number=number, rank=rank, source=pattern.source)
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
    def size(*names: str) -> int | None:
        parts = [int(values[name]) for name in names if name in values]
        return sum(parts) if parts else None

    def number(name: str) -> int | None:
        return int(values[name]) if name in values else None

    def word(name: str) -> str | None:
        return str(values[name]) if name in values else None

    return LogCache(
        kind=kind,
        size_bytes=number("size") if "size" in values else size("k", "v", "conv", "state"),
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


def _merge(start: _Start, fact: str, value: Value) -> None:
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


def _facts(start: _Start, starts: int) -> LogFacts:
    facts = dict(start.facts)
    for name in {buffer for buffer, _ in start.buffers}:
        facts[name] = sum(
            size for (buffer, device), size in start.buffers.items() if buffer == name and _on_gpu(device)
        )
    if "loaded" in facts:
        facts.setdefault("weights", facts["loaded"])
    cells = [cache.tokens for _, cache in start.caches if cache.tokens]
    if cells or "cells" in facts:
        facts.setdefault("tokens", max(cells, default=facts.get("cells", 0)))
    fields: dict[str, object] = {name: facts[name] for name in _PLAIN if name in facts}
    fields |= {f"{name}_bytes": facts[name] for name in _BYTES if name in facts}
    fields = {name: str(value) if name in _TEXT else value for name, value in fields.items()}
    model = start.settings.get("model", facts.get("model"))
    first = next((rank for rank, _ in start.caches), None)
    return build(
        LogFacts,
        fields
        | {
            "engine": start.votes.most_common(1)[0][0] if start.votes else None,
            "model": None if model is None else str(model),
            "settings": start.settings,
            "caches": tuple(cache for rank, cache in start.caches if rank == first),
            "refusals": tuple(start.refusals),
            "lines": tuple(start.lines),
            "starts": starts,
        },
    )


def _on_gpu(device: str) -> bool:
    """llama.cpp names its buffers by device; the host's do not count."""
    return not device.strip().upper().startswith(("CPU", "CUDA_HOST", "HOST", "ROCM_HOST", "VULKAN_HOST"))
