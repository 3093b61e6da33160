"""The working behind a diagnosis: the pool from what is left, and how far each prediction is from the log."""

from collections.abc import Iterator

from kvcalc.answers.diagnose.started import Started
from kvcalc.answers.explain import explain, figure_of
from kvcalc.formulas.cache import kv_memory_left
from kvcalc.results.base import Figure
from kvcalc.results.diagnose import DiagnoseResult

PRINTED = "the log's own line: `--json` has its number under evidence"
RULES = "the engine's own rules: docs/explanation/memory.md"


def diagnose_working(started: Started, result: DiagnoseResult) -> Iterator[Figure]:
    """Each share of the memory as predicted and as printed, the pool from them, and every comparison."""
    for line in result.memory:
        ends = (("", line.predicted_bytes), (", low", line.low_bytes), (", high", line.high_bytes))
        for end, value in ends:
            if value is not None:
                yield figure_of(f"{line.name}, predicted{end}", "predicted_bytes", {"predicted_bytes": value}, "bytes",
                                RULES)  # fmt: skip
        if line.log_bytes is not None:
            yield figure_of(f"{line.name}, in the log", "log_bytes", {"log_bytes": line.log_bytes}, "bytes", PRINTED)
    budget = started.budget
    if budget is not None and budget.pool is not None and not budget.pool_given:
        yield explain(kv_memory_left, "cache pool", memory_bytes=budget.requested, weight_bytes=budget.weights,
                      other_bytes=budget.overhead.value)  # fmt: skip
    for one in result.agreement:
        inputs = {"predicted": one.predicted, "log": one.log}
        yield figure_of(f"{one.name}: predicted over the log", "predicted / log - 1", inputs, "1", "arithmetic")
