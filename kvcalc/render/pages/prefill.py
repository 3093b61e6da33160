"""What `kvcalc prefill` shows."""

from typing import Any

from kvcalc.render.page import Block, Facts, Page, Table, assumed
from kvcalc.render.pages.serving import serving_facts
from kvcalc.render.verdict import is_good, verdict_words
from kvcalc.results.base import engine_name
from kvcalc.results.data import data_of
from kvcalc.results.prefill import Chunk, Disaggregation, PoolServing, PrefillReport, PrefillResult
from kvcalc.units import format_bytes, format_count, format_seconds, format_si, format_things

SHOWN_CHUNKS = 4  # from each end of the list
SHOWN_TERMS = 6


def page(report: PrefillReport) -> Page:
    """The first token, what its prompt does to others, chunks, transfers, preemption."""
    result = report.result
    blocks: list[Block] = [] if result.serving is None else [serving_facts(result.serving, 1)]
    blocks += [_first_token(result), _beside(result), _chunks(result.chunks), _choices(result)]
    if result.prefix is not None:
        blocks.append(_prefix(result))
    blocks.append(_transfers(result))
    if result.disaggregation is not None:
        blocks.append(_pools(result.disaggregation))
    blocks.append(_preemption(result))
    prompt = format_count(result.prompt_tokens)
    where = f"{result.gpus} × {result.gpu}, {engine_name(result.engine)}"
    return Page(
        title=f"A prompt of {prompt} tokens: {result.model} on {where}",
        verdict=verdict_words(result.fit, result.reason),
        good=is_good(result.fit),
        blocks=tuple(blocks),
        notes=assumed(report),
        more=_by_block_size(result),
    )


def _first_token(result: PrefillResult) -> Facts:
    rows = [
        ("FLOPs", format_si(result.flops, "FLOP"), f"{result.attention_share:.0%} of them attention"),
        ("memory time", format_seconds(result.memory_time_s), ""),
        ("compute time", format_seconds(result.compute_time_s), ""),
        ("bound", format_seconds(result.bound_s), ""),
        ("operator bound", format_seconds(result.operator_bound_s), ""),
    ]
    if result.estimate_s is not None:
        low, high = format_seconds(result.estimate_s.low), format_seconds(result.estimate_s.high)
        rows.append(("estimate", format_seconds(result.estimate_s.value), f"{low} to {high}"))
    largest = result.ttft_terms[:SHOWN_TERMS]
    rows += [(f"  {one.name}", format_seconds(one.time_s), f"{one.share:.0%}") for one in largest]
    return Facts(title="Time to first token, alone and without a queue", rows=tuple(rows))


def _beside(result: PrefillResult) -> Facts:
    free = result.free_chunk_tokens
    rows = [
        ("their step", format_seconds(result.decode_step_s), ""),
        ("free chunk, bound", f"{format_count(free.bound)} tokens", "the step stays memory-bound"),
    ]
    if free.estimate is not None:
        remark = f"the step gets {free.slowdown:.0%} longer"
        rows.append(("free chunk, estimate", f"{format_count(free.estimate)} tokens", remark))
    spike = result.spike
    rows.append(("whole prompt at once", format_seconds(spike.step_time_s), f"{spike.ratio:,.1f} × their step"))
    if result.chunk_for_tpot is not None:
        target = result.chunk_for_tpot
        said = "no chunk" if target.chunk is None else f"{format_count(target.chunk)} tokens"
        remark = ""
        if target.worst_step_s is not None and target.ttft_s is not None:
            remark = f"worst step {format_seconds(target.worst_step_s)}, first token {format_seconds(target.ttft_s)}"
        rows.append((f"chunk for {format_seconds(target.tpot_s)}", said, remark))
    context = format_count(result.context)
    return Facts(title=f"Beside {format_things(result.batch, 'sequence')} of {context} tokens", rows=tuple(rows))


def _chunks(chunks: tuple[Chunk, ...]) -> Table:
    rows = [(format_count(one.start), format_count(one.tokens), format_seconds(one.step_time_s)) for one in chunks]
    if len(rows) > 2 * SHOWN_CHUNKS + 1:
        left = len(rows) - 2 * SHOWN_CHUNKS
        rows = [*rows[:SHOWN_CHUNKS], (f"{left} more", "", ""), *rows[-SHOWN_CHUNKS:]]
    return Table(
        title=f"In {format_things(len(chunks), 'chunk')}", columns=("after", "tokens", "step"), rows=tuple(rows)
    )


def _choices(result: PrefillResult) -> Table:
    return Table(
        title="Chunk sizes: the others' step, and the prompt's first token",
        columns=("chunk", "steps", "mean step", "worst step", "× plain", "first token", "later by"),
        rows=tuple(
            (
                format_count(one.chunk),
                format_count(one.steps),
                format_seconds(one.mean_step_s),
                format_seconds(one.worst_step_s),
                f"{one.worst_ratio:,.1f}",
                format_seconds(one.ttft_s),
                _signed(one.waits_s),
            )
            for one in result.by_chunk
        ),
    )


def _signed(seconds: float) -> str:
    return format_seconds(seconds) if seconds >= 0 else f"−{format_seconds(-seconds)}"


def _prefix(result: PrefillResult) -> Facts:
    hit = result.prefix
    assert hit is not None
    held = "no limit" if hit.max_batch is None else format_count(hit.max_batch)
    without = "no limit" if hit.max_batch_without is None else format_count(hit.max_batch_without)
    return Facts(
        title="Prefix hit",
        rows=(
            ("tokens there already", format_count(hit.tokens), f"of {format_count(hit.asked_tokens)} in whole blocks"),
            ("first token", format_seconds(hit.time_s), f"{format_seconds(hit.time_without_s)} without"),
            ("saved", f"{hit.saved_share:.0%}", ""),
            ("sequences that share it", held, f"{without} without sharing"),
        ),
    )


def _transfers(result: PrefillResult) -> Table:
    return Table(
        title="Hand-over to a decode pool",
        columns=("link", "bytes", "time", "left after the prefill"),
        rows=tuple(
            (one.link, format_bytes(one.bytes), format_seconds(one.time_s), format_seconds(one.exposed_s))
            for one in result.transfer
        ),
    )


def _pools(pools: Disaggregation) -> Facts:
    ratio = f"{pools.prefill_replicas} : {pools.decode_replicas}"
    rows = [
        ("balance", ratio, f"prefill to decode replicas ({pools.prefill_per_decode:.2f}), over the {pools.link}"),
        ("prompt tokens a step", format_count(pools.prompt_tokens_per_step), "that chunked steps carry on average"),
        _serving("chunked", pools.chunked),
        _serving("separate", pools.disaggregated),
        ("better", pools.better, pools.why),
    ]
    return Facts(title=f"Separate pools, answers of {format_count(pools.output_len)} tokens", rows=tuple(rows))


def _serving(name: str, one: PoolServing | None) -> tuple[str, str, str]:
    if one is None:
        return (name, "–", "no batch meets the target")
    remark = (
        f"tokens/s per GPU at {format_count(one.batch)} sequences, "
        f"{format_seconds(one.tpot_s)} a token, first after {format_seconds(one.ttft_s)}"
    )
    return (name, format_count(one.output_tokens_per_s_per_gpu), remark)


def _preemption(result: PrefillResult) -> Facts:
    one = result.preemption
    swap = "–" if one.swap_s is None else format_seconds(one.swap_s)
    moved = f"{format_bytes(one.bytes)} over {one.link}, out and in again"
    rows = [
        ("swap", swap, "no link to the host is known" if one.link is None else moved),
        ("recompute", format_seconds(one.recompute_s), f"{one.cheaper} is faster"),
    ]
    return Facts(title=f"Preempted: {format_count(one.tokens)} tokens restored", rows=tuple(rows))


def _by_block_size(result: PrefillResult) -> tuple[Block, ...]:
    """Swapping by the size of the cache's blocks: what --explain shows beside."""
    rows = result.preemption.by_block_size
    if not rows:
        return ()
    cells = tuple((format_count(row.block_size), format_seconds(row.swap_s), format_count(row.copies)) for row in rows)
    return (Table(title="Swap, by the size of a block", columns=("tokens", "swap", "copies"), rows=cells),)


def rows(report: PrefillReport) -> list[dict[str, Any]]:
    """For CSV: one line a chunk."""
    return [data_of(one) for one in report.result.chunks]
