"""`vllm bench serve --save-result` (one JSON object) and `sglang.bench_serving --output-file` (JSON lines).

Both write `duration`, `completed`, `total_input_tokens`, `total_output_tokens` and means in milliseconds; vLLM names
the model in `model_id`, SGLang the data set in `dataset_name`.
Source: vllm/benchmarks/serve.py and python/sglang/bench_serving.py, their `result` dictionaries.
"""

from collections.abc import Mapping
from typing import Any

from kvcalc.catalog.bench.measurement import Served, in_flight
from kvcalc.errors import KvcalcError

NEEDED = ("completed", "duration", "total_input_tokens", "total_output_tokens", "mean_ttft_ms")


def is_serving(table: Mapping[str, Any]) -> bool:
    """Whether an object is one of these results."""
    return all(key in table for key in NEEDED)


def served(table: Mapping[str, Any], source: str) -> Served:
    """Mean lengths and latencies of a run.

    Raises:
        KvcalcError: nothing was completed.
    """
    completed, duration = _number(table, "completed", source), _number(table, "duration", source)
    if completed < 1 or duration <= 0:
        raise KvcalcError(f"{source}: no request was completed", hint="give the result of a run that worked")
    output_len = _number(table, "total_output_tokens", source) / completed
    if output_len < 1:
        raise KvcalcError(f"{source}: {output_len:g} tokens out a request", hint="give the result of a run that worked")
    ttft_s = _number(table, "mean_ttft_ms", source) / 1000
    spoken = table.get("mean_tpot_ms") or table.get("mean_itl_ms")
    tpot_s = float(spoken) / 1000 if isinstance(spoken, int | float) and spoken > 0 else None
    flight = in_flight(completed, ttft_s, tpot_s or 0.0, output_len, duration)
    limit = table.get("max_concurrency")
    return Served(
        input_len=_number(table, "total_input_tokens", source) / completed,
        output_len=output_len,
        concurrency=min(flight, float(limit)) if isinstance(limit, int) and limit > 0 else flight,
        num_prompts=int(completed),
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        source=source,
        together=isinstance(limit, int) or str(table.get("request_rate", "inf")) in ("inf", "Infinity"),
    )


def _number(table: Mapping[str, Any], key: str, source: str) -> float:
    value = table[key]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e15:
        raise KvcalcError(f"{source}: {key} is {str(value)[:40]!r}, not a number", hint="is the file whole?")
    return float(value)
