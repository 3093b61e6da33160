"""A log's figures against the predicted ones: memory from config and flags, capacity from the log's own pool."""

from collections.abc import Sequence

from kvcalc.answers.diagnose.memory import PRINTED
from kvcalc.answers.diagnose.started import Started
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.results.diagnose import Compared, MemoryLine

ROUNDING = 0.012  # of a figure that follows from another figure of two decimals
COUNTED = 0.01  # of what is counted and not measured: loaded weights, what a fraction keeps back


def agreement(started: Started, lines: Sequence[MemoryLine]) -> tuple[Compared, ...]:
    """Memory against the prediction from config and flags, capacity against the rule on the log's own pool."""
    facts, held, length = started.facts, started.held, started.length
    found = [
        _compared_memory(line)
        for line in lines
        if line.log_bytes is not None and line.predicted_bytes is not None and line.name != "the card"
    ]
    if held is not None:
        pairs: list[tuple[str, str, float | int | None, float | int | None]] = [
            ("blocks", "blocks", facts.blocks, held.num_blocks),
            ("tokens", "tokens", facts.tokens, held.kv_cache_size_tokens),
            ("concurrency", "sequences", facts.concurrency, held.max_concurrency(length)),
        ]
        if length:
            longest = held.estimated_max_model_len(length)
            pairs.append(("needed for one sequence", "bytes", facts.needed_bytes, held.needed_bytes(length)))
            pairs.append(("longest sequence", "tokens", facts.estimated_max_len, longest))
        if started.rules.TAKES_WHAT_IS_ASKED and _one_stream(facts):
            pairs = [("cache of n_ctx", "bytes", facts.cache_bytes, held.needed_bytes(facts.tokens))]
        found += [_compared(name, unit, log, value) for name, unit, log, value in pairs if log and value is not None]
    return tuple(found)


def _one_stream(facts: LogFacts) -> bool:
    """Several streams of cells divide n_ctx; how, the sizes do not say."""
    streams = {cache.streams for cache in facts.caches if cache.tokens}
    return bool(facts.tokens) and streams <= {None, 1}


def _compared(name: str, unit: str, log: float, predicted: float) -> Compared:
    error = predicted / log - 1
    return Compared(
        name=name, unit=unit, log=log, predicted=predicted, error=round(error, 6), agrees=abs(error) <= ROUNDING
    )


def _compared_memory(line: MemoryLine) -> Compared:
    log, predicted = line.log_bytes or 0, line.predicted_bytes or 0
    low = predicted if line.low_bytes is None else line.low_bytes
    high = predicted if line.high_bytes is None else line.high_bytes
    room = PRINTED + (COUNTED * predicted if low == high else 0)
    return Compared(
        name=line.name,
        unit="bytes",
        log=log,
        predicted=predicted,
        low=line.low_bytes,
        high=line.high_bytes,
        error=round(predicted / log - 1, 6) if log else None,
        agrees=low - room <= log <= high + room,
    )
