"""The memory of a log's start, term by term, with the prediction beside it."""

from kvcalc.answers.diagnose.started import Started
from kvcalc.engines import rules
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.memory.budget import ByteRange, MemoryBudget
from kvcalc.results.diagnose import MemoryLine
from kvcalc.units import GIB, format_bytes

PRINTED = 0.015 * GIB  # what two decimals can hide


def memory_lines(started: Started) -> tuple[MemoryLine, ...]:
    """From the card's total to the pool; what the log does not print apart stands where it is inside."""
    facts, budget, pool = started.facts, started.budget, started.pool
    weights = started.weights if started.same_file else None  # of another file than the log's it says nothing
    peak = budget.activation.peak if budget and budget.activation else None
    asks = budget is not None and started.rules.ASKS_FOR_SHARE  # the others take what is free
    rows = [
        ("the card", facts.total_bytes, _exact(budget.total) if budget else None, ""),
        ("requested", facts.requested_bytes, _exact(budget.requested) if budget and asks else None, ""),
        ("weights", facts.weights_bytes, _weights(facts, weights, budget), ""),
        (started.rules.OUTSIDE, facts.non_torch_bytes, budget.non_torch if budget else None, ""),
        (started.rules.PEAK, facts.activation_bytes, peak, _phase(budget)),
        ("CUDA graphs", facts.graphs_bytes, _graphs(budget), _graphs_note(budget)),
        ("kept back", _kept_back(facts, pool), budget.reserve if budget and budget.reserve.high else None, ""),
        ("cache pool", pool, _pool(budget), _pool_note(budget)),
    ]
    if facts.consumed_bytes is not None:
        both = _exact(weights).plus(budget.non_torch) if budget and weights is not None else None
        rows.insert(3, ("weights and outside PyTorch", facts.consumed_bytes, both, "printed together since vLLM 0.27"))
    if facts.activation_with_graphs_bytes is not None:
        whole = peak.plus(budget.graphs) if budget and peak else None
        rows.insert(-3, ("activation peak and graphs", facts.activation_with_graphs_bytes, whole, ""))
    lines = [
        _line(name, log, predicted, note)
        for name, log, predicted, note in rows
        if log is not None or (predicted is not None and predicted.high > 0)
    ]
    rest = _unaccounted(facts)
    if rest is not None and abs(rest) > 3 * PRINTED:
        lines.append(MemoryLine(name="not accounted for", log_bytes=rest, note="the log's terms do not add up"))
    return tuple(lines)


def _weights(facts: LogFacts, weights: int | None, budget: MemoryBudget | None) -> ByteRange | None:
    """With what loading left allocated beside them: SGLang's "mem usage", vLLM's workspaces of sparse attention."""
    if weights is None:
        return None
    if budget is not None and budget.workspace.high:
        return ByteRange(low=weights, value=weights + budget.workspace.value, high=weights + budget.workspace.high)
    left = rules(facts.engine).LEFT_BY_LOADING_BYTES if facts.engine else 0
    if left:
        return ByteRange(low=int(0.99 * weights), value=weights, high=weights + left)
    return _exact(weights)


def _exact(value: int) -> ByteRange:
    return ByteRange.exactly(value)


def _line(name: str, log: int | None, predicted: ByteRange | None, note: str) -> MemoryLine:
    if predicted is None:
        return MemoryLine(name=name, log_bytes=log, note=note)
    ranged = predicted.low != predicted.high
    return MemoryLine(
        name=name,
        log_bytes=log,
        predicted_bytes=predicted.value,
        low_bytes=predicted.low if ranged else None,
        high_bytes=predicted.high if ranged else None,
        note=note,
    )


def _phase(budget: MemoryBudget | None) -> str:
    return f"in the {budget.activation.phase}" if budget and budget.activation else ""


def _graphs(budget: MemoryBudget | None) -> ByteRange | None:
    """SGLang's and TensorRT-LLM's graphs live in what is kept back: no figure of their own."""
    return budget.graphs if budget is not None and rules(budget.engine).ASKS_FOR_SHARE else None


def _pool(budget: MemoryBudget | None) -> ByteRange | None:
    """llama.cpp takes what it is told to, not what is free; where nothing is left, there is no pool to compare."""
    if budget is None or rules(budget.engine).TAKES_WHAT_IS_ASKED or budget.pool is None or budget.pool.value <= 0:
        return None
    return ByteRange(low=max(0, budget.pool.low), value=budget.pool.value, high=budget.pool.high)


def _pool_note(budget: MemoryBudget | None) -> str:
    if budget is not None and budget.pool is not None and budget.pool.value <= 0:
        return f"predicted: {format_bytes(-budget.pool.value)} too little"
    return "what -c asks for" if budget is not None and rules(budget.engine).TAKES_WHAT_IS_ASKED else ""


def _graphs_note(budget: MemoryBudget | None) -> str:
    apart = budget is not None and not budget.graphs_charged and rules(budget.engine).ASKS_FOR_SHARE
    return "on top of the requested memory" if apart else ""


def _kept_back(facts: LogFacts, pool: int | None) -> int | None:
    """SGLang: what stays free of the memory before loading."""
    before, after = facts.free_before_load_bytes, facts.free_after_load_bytes
    return after - pool if before is not None and after is not None and pool is not None else None


def _unaccounted(facts: LogFacts) -> int | None:
    terms = (
        facts.requested_bytes,
        facts.weights_bytes,
        facts.non_torch_bytes,
        facts.activation_bytes,
        facts.pool_bytes,
    )
    if facts.consumed_bytes is not None or any(term is None for term in terms):
        return None
    requested, *rest = (term for term in terms if term is not None)
    charged = facts.graphs_estimate_bytes or 0
    left = requested - sum(rest)
    return min(left, left - charged, key=abs)
