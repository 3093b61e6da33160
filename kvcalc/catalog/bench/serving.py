"""`vllm bench serve --save-result` (one JSON object) and `sglang.bench_serving --output-file` (JSON lines).

Both write `duration`, `completed`, `total_input_tokens`, `total_output_tokens` and means in milliseconds (SGLang of
2024 medians alone); vLLM names the model in `model_id`, SGLang the data set in `dataset_name`. Where tokens were
drafted, SGLang writes `accept_length`, vLLM `spec_decode_acceptance_length`.
Source: vllm/benchmarks/serve.py and python/sglang/bench_serving.py, their `result` dictionaries.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from kvcalc.catalog.bench.measurement import Served, in_flight
from kvcalc.errors import KvcalcError

NEEDED = ("completed", "duration", "total_input_tokens", "total_output_tokens")
FIRST_TOKEN = ("mean_ttft_ms", "median_ttft_ms")
PER_TOKEN = ("mean_tpot_ms", "mean_itl_ms", "median_tpot_ms", "median_itl_ms")
DRAFTED = ("accept_length", "spec_decode_acceptance_length")


def is_serving(table: Mapping[str, Any]) -> bool:
    """Whether an object is one of these results."""
    return all(key in table for key in NEEDED) and any(key in table for key in FIRST_TOKEN)


def served(table: Mapping[str, Any], source: str) -> Served:
    """Mean lengths and latencies of a run.

    Raises:
        KvcalcError: nothing was completed, or tokens were drafted.
    """
    _require_plain(table, source)
    completed, duration = _number(table, "completed", source), _number(table, "duration", source)
    if completed < 1 or duration <= 0:
        raise KvcalcError(f"{source}: no request was completed", hint="give the result of a run that worked")
    output_len = _number(table, "total_output_tokens", source) / completed
    if output_len < 1:
        raise KvcalcError(f"{source}: {output_len:g} tokens out a request", hint="give the result of a run that worked")
    ttft_s = _number(table, next(key for key in FIRST_TOKEN if key in table), source) / 1000
    said = next((key for key in PER_TOKEN if table.get(key)), None)  # absent or 0 where one token came out
    tpot_s = _number(table, said, source) / 1000 if said and output_len > 1 else None
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


def _require_plain(table: Mapping[str, Any], source: str) -> None:
    """Factors are of plain steps: a run with drafts tells nothing of them."""
    for key in DRAFTED:
        length = table.get(key)
        if isinstance(length, int | float) and isfinite(length) and length > 1:
            raise KvcalcError(
                f"{source}: tokens were drafted ({key} is {length:.3g}), and factors are of plain steps",
                hint="give a run of the same server without speculative decoding",
            )


def _number(table: Mapping[str, Any], key: str, source: str) -> float:
    value = table[key]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e15:
        raise KvcalcError(f"{source}: {key} is {str(value)[:40]!r}, not a number", hint="is the file whole?")
    return float(value)
