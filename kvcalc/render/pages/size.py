"""What `kvcalc size` shows."""

from collections.abc import Mapping
from typing import Any

from kvcalc.render.command import started_by
from kvcalc.render.page import Block, Facts, Page, Text, assumed
from kvcalc.render.pages.paging import paging_facts
from kvcalc.render.pages.serving import serving_facts, spread_of
from kvcalc.render.verdict import is_good, verdict_words
from kvcalc.results.base import engine_name
from kvcalc.results.data import data_of
from kvcalc.results.size import MemoryTerm, SizeReport, SizeResult
from kvcalc.units import GIB, format_bytes, format_count, format_gib, format_seconds, format_things, format_usd

TOGETHER = " + "  # in the title of cards that llama.cpp splits the layers over: they are taken as one


def page(report: SizeReport) -> Page:
    """The verdict, how fast and for how much, what fits, the memory, what would change it."""
    result = report.result
    return Page(
        title=f"{result.model} on {result.gpus} × {result.gpu}, {engine_name(result.engine, result.engine_version)}",
        verdict=_verdict(result),
        good=is_good(result.fit) if result.kv_pool_bytes_per_gpu is not None else None,
        blocks=figures(result, report.inputs),
        notes=assumed(report),
        more=working(result),
    )


def figures(result: SizeResult, inputs: Mapping[str, Any]) -> tuple[Block, ...]:
    """The blocks of one GPU's answer."""
    blocks: list[Block] = []
    replicas = int(inputs["data_parallel_size"])
    if result.serving is not None:
        blocks.append(serving_facts(result.serving, replicas))
    if result.bound is not None:
        blocks.append(_step(result, replicas))
    if result.fits or result.kv_cache_size_tokens:
        blocks.append(_sequences(result))
    blocks.append(_memory(result, inputs["kv_memory_bytes"] is not None))
    if result.advice:
        blocks.append(
            Text(title="What would change it", lines=tuple(f"{one.change}: {one.effect}" for one in result.advice))
        )
    if result.command is not None and result.fit != "does_not_fit":
        blocks.append(started_by(result.command))
    return tuple(blocks)


def working(result: SizeResult) -> tuple[Block, ...]:
    """What --explain shows beside: the pool without an engine's rounding, and what paging costs and gives."""
    blocks: list[Block] = []
    if result.ideal is not None:
        tokens = result.ideal.kv_cache_size_tokens
        held = "no limit" if tokens is None else format_count(tokens)
        blocks.append(Facts(title="The same pool without blocks", rows=(("tokens", held, result.ideal.difference),)))
    if result.paging is not None and result.paging.paged_batch > result.paging.contiguous_batch:
        blocks.append(paging_facts(result.paging))
    return tuple(blocks)


def _verdict(result: SizeResult) -> str:
    if result.kv_pool_bytes_per_gpu is None:
        return f"not predicted: {result.reason}; --kv-memory sets the pool"
    return verdict_words(result.fit, result.reason)


def _memory(result: SizeResult, pool_given: bool) -> Facts:
    rows = [(term.name, format_gib(term.bytes), _remark(term)) for term in result.memory]
    if result.kv_pool_bytes_per_gpu is not None:
        spread = _spread(result.kv_pool_low_bytes_per_gpu, result.kv_pool_high_bytes_per_gpu)
        given = "given" if pool_given else ""
        rows.append(("cache pool", format_gib(result.kv_pool_bytes_per_gpu), spread or given))
    return Facts(title=f"Memory of {'all cards' if TOGETHER in result.gpu else 'one GPU'}", rows=tuple(rows))


def _remark(term: MemoryTerm) -> str:
    return ", ".join(part for part in (_spread(term.low_bytes, term.high_bytes), term.note) if part)


def _spread(low: int | None, high: int | None) -> str:
    if low is None or high is None or low == high:
        return ""
    return f"{low / GIB:,.2f} to {high / GIB:,.2f}"


def _sequences(result: SizeResult) -> Block:
    if result.kv_pool_bytes_per_gpu is None:
        return Text(title="Sequences that fit", lines=(result.reason or "not predicted",))
    per_token = f"{format_bytes(result.kv_cache_bytes_per_token)} a token"
    if result.fixed_bytes_per_sequence:
        per_token += f" and {format_bytes(result.fixed_bytes_per_sequence)} a sequence"
    per_token += " on each GPU" if result.gpus > 1 else ""
    tokens = "no limit" if result.kv_cache_size_tokens is None else format_count(result.kv_cache_size_tokens)
    rows = [("tokens", tokens, per_token)]
    if result.kv_cache_max_concurrency is not None and result.max_model_len is not None:
        concurrency = f"{result.kv_cache_max_concurrency:,.2f}"
        rows.append(("concurrency", concurrency, f"sequences of max_model_len = {format_count(result.max_model_len)}"))
    for row in result.by_context:
        held = "no limit" if row.max_batch is None else format_count(row.max_batch)
        said = "sequence" if row.max_batch == 1 else "sequences"
        if row.alone_tokens_per_s is not None:
            said += f"; {'it' if row.max_batch == 1 else 'one'} alone: {row.alone_tokens_per_s.value:,.0f} tokens/s"
        rows.append((f"at {format_count(row.context)}", held, said))
    return Facts(title="Cache that fits", rows=tuple(rows))


def _step(result: SizeResult, replicas: int) -> Facts:
    bound, estimate = result.bound, result.estimate
    assert bound is not None
    cost = bound.usd_per_million_output_tokens
    rows = [
        ("bound", format_seconds(bound.step_time_s), _speed(bound.output_tokens_per_s, cost, f"{bound.limit}-bound"))
    ]
    if estimate is not None:
        price = estimate.usd_per_million_output_tokens
        rows.append(
            (
                "estimate",
                format_seconds(estimate.step_time_s.value),
                _speed(
                    estimate.output_tokens_per_s.value, price.value if price else None, spread_of(estimate.step_time_s)
                ),
            )
        )
    title = f"One decode step of {_batch(result)} at {format_count(result.mean_context)}"
    if result.max_batch == 0 and result.mean_context < result.context:
        return Facts(title=f"{title}, the longest that fits", rows=tuple(rows))
    if result.mean_context != result.context:
        title += f", the mean up to {format_count(result.context)}"
    if replicas > 1:
        title += f", on each of {replicas} replicas"
    if result.fits is False:
        title += ", if they fitted"
    return Facts(title=title, rows=tuple(rows))


def _batch(result: SizeResult) -> str:
    """How many sequences; that they are all that fit is said where nobody asked for so many or fewer."""
    batch = result.batch or 0
    full = batch > 1 and batch == result.max_batch
    return f"all {format_count(batch)} sequences that fit," if full else format_things(batch, "sequence")


def _speed(tokens_per_s: float, cost: float | None, remark: str) -> str:
    money = f", {format_usd(cost)} per M tokens" if cost is not None else ""
    return f"{remark}, {format_count(tokens_per_s)} tokens/s{money}"


def rows(report: SizeReport) -> list[dict[str, Any]]:
    """For CSV: the figures."""
    return [data_of(report.result)]
