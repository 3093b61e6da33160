"""The working behind a prompt: its first token, chunks, what it does to others, transfers and preemption."""

from collections.abc import Iterator

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import ends, explain, figure_of, total
from kvcalc.answers.prefill.cache import sharing
from kvcalc.answers.prefill.chunks import Beside, chunk_steps, decode_pass, mixed_pass
from kvcalc.answers.step.rows import ESTIMATE_SOURCE, rows_of, sums, time_figure
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Step
from kvcalc.formulas import prefill as formulas
from kvcalc.formulas import step
from kvcalc.results.base import Figure
from kvcalc.results.prefill import Chunk, PrefillResult
from kvcalc.timing.passes import Pass
from kvcalc.units import format_count

SHOWN_CHUNKS = 4  # of each end of the list, as the page has it
SOURCE = "docs/explanation/time.md: chunks of a prompt"
POOLS = "docs/how-to/prefill.md: separate pools in a steady state"
MOVED = "docs/how-to/prefill.md: what a prompt's cache costs to move"


def prompt_working(
    deployed: Deployed, beside: Beside, alone: Pass, result: PrefillResult, context: int
) -> Iterator[Figure]:
    """From the FLOPs of a prompt to everything that the page says of it; `context` tokens of the others at most."""
    yield from _alone(deployed, beside, alone)
    yield sums(rows_of(deployed, alone))[0]
    if result.estimate_s is not None:
        yield total("estimate", {one.name: one.time_s for one in result.ttft_terms}, "s", ESTIMATE_SOURCE)
        yield from ends("estimate", result.estimate_s, "s")
    whole = sum(one.time_s for one in result.ttft_terms)
    for one in result.ttft_terms:
        inputs = {"time_s": one.time_s, "whole_s": whole}
        yield figure_of(f"share of {one.name}", "time_s / whole_s", inputs, "1", "arithmetic")
    yield from _beside(deployed, beside, result)
    yield from _chunks(deployed, beside, result)
    yield from _moved(deployed, beside, result, context)
    yield from _pools(deployed, beside, result)


def _alone(deployed: Deployed, beside: Beside, alone: Pass) -> Iterator[Figure]:
    rows, bandwidth = beside.prompt - beside.start, deployed.gpu.memory_bandwidth_bytes_per_s
    attention, moved = single(alone.attention_flops), single(alone.weight_bytes + alone.cache_bytes)
    flops, efficiency = single(alone.flops), beside.compute_efficiency
    peak = flops / (single(alone.compute_time_s) * efficiency)
    parameters = (flops - attention) / (2 * rows)
    yield explain(formulas.prefill_flops, "FLOPs of the prompt", parameters=parameters, tokens=rows,
                  attention_flops=attention)  # fmt: skip
    inputs = {"attention_flops": attention, "flops": flops}
    yield figure_of("attention's share of the FLOPs", "attention_flops / flops", inputs, "1", "arithmetic")
    yield explain(step.memory_time, "memory time", bytes_moved=single(alone.bytes), bandwidth_bytes_per_s=bandwidth)
    yield explain(step.compute_time, "compute time", flops=flops, peak_flops=peak * efficiency)
    yield explain(formulas.prefill_time, "bound", weight_bytes=moved, flops=flops, bandwidth_bytes_per_s=bandwidth,
                  peak_flops=peak, compute_efficiency=efficiency)  # fmt: skip


def _beside(deployed: Deployed, beside: Beside, result: PrefillResult) -> Iterator[Figure]:
    """Their step, the tokens that it carries for nothing, and the whole prompt in one."""
    plain = decode_pass(deployed, beside)
    yield time_figure("their step", deployed, plain)
    free = result.free_chunk_tokens
    if free.estimate is not None and free.slowdown is not None:
        with_them = mixed_pass(deployed, beside, int(free.estimate), 0)
        slow = {"tokens": free.estimate, "step_with_them_s": single(with_them.time_s),
                "their_step_s": single(plain.time_s), "slowdown": free.slowdown}  # fmt: skip
        formula = "tokens if step_with_them_s <= (1 + slowdown) * their_step_s else 0"
        yield figure_of("free chunk, estimate", formula, slow, "tokens", SOURCE)
        with_them = mixed_pass(deployed, beside, int(free.bound), 0)
        same = {"tokens": free.bound, "bound_with_them_s": single(with_them.bound_s),
                "their_bound_s": single(plain.bound_s)}  # fmt: skip
        formula = "tokens if bound_with_them_s <= 1.001 * their_bound_s else 0"
        yield figure_of("free chunk, bound", formula, same, "tokens", SOURCE)
    whole = mixed_pass(deployed, beside, beside.prompt - beside.start, beside.start)
    yield time_figure("step with the whole prompt", deployed, whole)
    inputs = {"step_s": result.spike.step_time_s, "their_step_s": result.decode_step_s}
    yield figure_of("spike over their step", "step_s / their_step_s", inputs, "1", "arithmetic")


def _chunks(deployed: Deployed, beside: Beside, result: PrefillResult) -> Iterator[Figure]:
    """Each step that the page shows, and each size of chunk."""
    steps = result.chunks
    shown = steps if len(steps) <= 2 * SHOWN_CHUNKS + 1 else (*steps[:SHOWN_CHUNKS], *steps[-SHOWN_CHUNKS:])
    for one in shown:
        yield _step(f"step of {format_count(one.tokens)} tokens after {format_count(one.start)}", deployed, beside, one)
    target = result.chunk_for_tpot
    if target is not None and target.chunk and target.worst_step_s is not None:
        inputs = {"chunk": target.chunk, "worst_step_s": target.worst_step_s, "tpot_s": target.tpot_s}
        yield figure_of("chunk for the target", "chunk if worst_step_s <= tpot_s else 0", inputs, "tokens", SOURCE)
        if target.ttft_s is not None:
            inputs = {"front_end_s": beside.front_end_s, "all_steps_s": target.ttft_s - beside.front_end_s}
            yield figure_of("first token with it", "front_end_s + all_steps_s", inputs, "s", SOURCE)
    for choice in result.by_chunk:
        name = f"chunks of {format_count(choice.chunk)}"
        worst = max(chunk_steps(deployed, beside, choice.chunk), key=lambda one: one.step_time_s)
        yield _step(f"{name}, worst step", deployed, beside, worst)
        inputs = {"worst_step_s": choice.worst_step_s, "their_step_s": result.decode_step_s}
        yield figure_of(f"{name}, over their step", "worst_step_s / their_step_s", inputs, "1", "arithmetic")
        inputs = {"all_steps_s": choice.mean_step_s * choice.steps, "steps": choice.steps}
        yield figure_of(f"{name}, mean step", "all_steps_s / steps", inputs, "s", SOURCE)
        inputs = {"front_end_s": beside.front_end_s, "mean_step_s": choice.mean_step_s, "steps": choice.steps}
        yield figure_of(f"{name}, first token", "front_end_s + steps * mean_step_s", inputs, "s", SOURCE)
        inputs = {"first_token_s": choice.ttft_s, "alone_s": choice.ttft_s - choice.waits_s}
        yield figure_of(f"{name}, later by", "first_token_s - alone_s", inputs, "s", "arithmetic")


def _step(name: str, deployed: Deployed, beside: Beside, one: Chunk) -> Figure:
    return time_figure(name, deployed, mixed_pass(deployed, beside, one.tokens, one.start))


def _moved(deployed: Deployed, beside: Beside, result: PrefillResult, context: int) -> Iterator[Figure]:
    """What is left of each transfer, a swap both ways, and the prompt once more."""
    first = result.bound_s if result.estimate_s is None else result.estimate_s.value
    for one in result.transfer:
        inputs = {"transfer_s": one.time_s, "prefill_s": first, "layers": deployed.model.layers}
        formula = "max(transfer_s / layers, transfer_s - prefill_s * (layers - 1) / layers)"
        yield figure_of(f"left of the transfer over {one.link}", formula, inputs, "s", MOVED)
    restored = result.preemption
    if restored.swap_one_way_s is not None:
        yield figure_of("swap, out and in", "2 * one_way_s", {"one_way_s": restored.swap_one_way_s}, "s", MOVED)
    for row in restored.by_block_size:
        yield figure_of(f"swap in blocks of {row.block_size}", "2 * one_way_s", {"one_way_s": row.swap_s / 2}, "s",
                        MOVED)  # fmt: skip
    if not deployed.replica.ideal:
        again = Pass(deployed.replica, Step(prompts=1, tokens=restored.tokens), beside.compute_efficiency)
        parts = {one.operator.name: single(one.time_s) for one in again.operator_times}
        parts["launches_and_engine"] = restored.recompute_s - sum(parts.values())
        yield total("recomputation", parts, "s", ESTIMATE_SOURCE)
    if (hit := result.prefix) is not None:
        inputs = {"with_s": hit.time_s, "without_s": hit.time_without_s}
        yield figure_of("saved by the prefix", "1 - with_s / without_s", inputs, "1", "arithmetic")
        held = sharing(deployed, min(hit.tokens, context), context)
        if held is not None:
            inputs = {"blocks_beside_the_shared": held[0], "blocks_of_each": held[1]}
            formula = "blocks_beside_the_shared // blocks_of_each"
            yield figure_of("sequences that share it", formula, inputs, "sequences", MOVED)


def _pools(deployed: Deployed, beside: Beside, result: PrefillResult) -> Iterator[Figure]:
    """Separate pools in balance against chunks that keep pace: tokens of a GPU, and the first token."""
    found = result.disaggregation
    if found is None:
        return
    each = beside.prompt - beside.start
    first = result.bound_s if result.estimate_s is None else result.estimate_s.value
    layout = deployed.deployment
    gpus = layout.tensor_parallel_size * layout.pipeline_parallel_size
    inputs: dict[str, float]
    lengths = {"prompt_tokens": each, "output_len": found.output_len}
    if (one := found.chunked) is not None:
        inputs = {"batch": one.batch, "budget": deployed.max_num_batched_tokens, **lengths}
        formula = "min(batch * prompt_tokens / output_len, max(1, budget - batch))"
        yield figure_of("prompt tokens a step, chunked", formula, inputs, "tokens", POOLS)
        inputs = {"prompt_tokens_a_step": found.prompt_tokens_per_step, "step_s": one.tpot_s, "gpus": gpus, **lengths}
        formula = "prompt_tokens_a_step / prompt_tokens * output_len / step_s / gpus"
        yield figure_of("tokens/s of a GPU, chunked", formula, inputs, "tokens/s", POOLS)
        formula = "max(1, prompt_tokens / prompt_tokens_a_step) * step_s"
        yield figure_of("first token, chunked", formula, inputs, "s", POOLS)
    if (one := found.disaggregated) is not None:
        inputs = {"prompt_s": first - beside.front_end_s, "step_s": one.tpot_s, "batch": one.batch, "gpus": gpus,
                  "output_len": found.output_len}  # fmt: skip
        formula = "prompt_s / (output_len * step_s / batch)"
        yield figure_of("prefill replicas for one that decodes", formula, inputs, "1", POOLS)
        formula = "output_len / (prompt_s + output_len * step_s / batch) / gpus"
        yield figure_of("tokens/s of a GPU, separate", formula, inputs, "tokens/s", POOLS)
        left = next(link.exposed_s for link in result.transfer if link.link == found.link)
        inputs = {"first_token_s": first, "left_of_the_transfer_s": left}
        yield figure_of("first token, separate", "first_token_s + left_of_the_transfer_s", inputs, "s", POOLS)
