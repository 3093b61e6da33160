"""The few figures that a reader takes away."""

from collections.abc import Iterator
from html import escape

from kvcalc.results.size import SizeResult
from kvcalc.units import format_count, format_gib, format_seconds, format_usd


def tiles(result: SizeResult) -> str:
    """Memory, sequences, speed and cost, each with what it is of."""
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(remark)}</small></dd></div>"
        for name, value, remark in _cells(result)
    )
    return f'<dl class="tiles">{cells}</dl>'


def _cells(result: SizeResult) -> Iterator[tuple[str, str, str]]:
    found = result.headline
    if result.kv_pool_bytes_per_gpu is not None:
        weights = f"beside {format_gib(result.weight_bytes_per_gpu)} of weights a GPU"
        yield "cache", format_gib(result.kv_pool_bytes_per_gpu), weights
    if result.kv_cache_size_tokens is not None:
        yield "cached tokens", format_count(result.kv_cache_size_tokens), "of one replica"
    if result.max_batch is not None:
        yield "sequences", format_count(result.max_batch), f"of {format_count(result.context)} tokens fit"
    if found is None:
        return
    of = {"serving": "in service", "step": "of a decode step", "bound": "at the bound"}[found.basis]
    batch = f"{of}, {format_count(result.batch)} sequences" if found.basis != "serving" and result.batch else of
    if found.ttft_s is not None:
        yield "time to first token", format_seconds(found.ttft_s.value), of
    if found.tpot_s is not None:
        yield "time per token", format_seconds(found.tpot_s.value), batch
    yield "tokens a second", format_count(found.output_tokens_per_s.value), "of the deployment"
    if found.usd_per_million_output_tokens is not None:
        yield "per million tokens", format_usd(found.usd_per_million_output_tokens.value), "output"
