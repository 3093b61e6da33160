"""The working behind drafts: tokens of a pass, the times of a round, and the speed-up at each length and batch."""

from collections.abc import Iterator, Mapping

from kvcalc.answers.explain import ends, explain, figure_of, labelled, total
from kvcalc.answers.speculate.rounds import Round, Rounds
from kvcalc.answers.step.rows import ESTIMATE_SOURCE, time_figure
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Step
from kvcalc.formulas import speculative as formulas
from kvcalc.formulas.cost import usd_per_million_tokens
from kvcalc.formulas.step import throughput
from kvcalc.results.base import Figure, Range
from kvcalc.results.speculate import SpeculateResult
from kvcalc.timing.passes import Pass
from kvcalc.units import format_count

SOURCE = "docs/explanation/speculation.md: a round is a check, the draft's passes, and what the engine does between"


def speculate_working(rounds: Rounds, result: SpeculateResult) -> Iterator[Figure]:
    """Tokens of the pass, the times of the round that was asked about, then each length and each batch."""
    at = rounds.at(result.batch, result.gamma)
    plain = Pass(rounds.target.replica, Step(decode=result.batch, context=rounds.context))
    yield time_figure("plain step", rounds.target, plain)
    yield from _tokens(rounds, result.gamma)
    yield from _round(rounds, at, result.batch, result.gamma)
    yield from _ratios(result)
    passes = rounds.drafter.passes(result.gamma)
    each = (result.draft_s + result.engine_s) / result.plain_step_s / passes if passes else 0.0
    engine = 0.0 if passes else result.engine_s / result.plain_step_s
    yield explain(
        formulas.speculative_speedup,
        name="speed-up",
        tokens_per_pass=result.tokens_per_pass,
        gamma=passes,
        draft_cost_ratio=each,
        verify_cost_ratio=result.verify_cost_ratio + engine,
    )
    if isinstance(result.speedup, Range):
        yield from ends("speed-up", result.speedup, "1")
    yield from _rates(rounds, result)
    for row in result.by_gamma:
        one, name = rounds.at(result.batch, row.gamma), f"γ {row.gamma}"
        yield from labelled(name, (*_tokens(rounds, row.gamma), *_round(rounds, one, result.batch, row.gamma)))
        yield from labelled(name, _gained(one))
    for batch in result.by_batch:
        name, one = f"batch {format_count(batch.batch)}", rounds.at(batch.batch, result.gamma or 1)
        drafted = rounds.drafter.tree.drafted(result.gamma or 1)
        yield from labelled(name, (*_round(rounds, one, batch.batch, result.gamma or 1), *_gained(one)))
        rows = explain(formulas.verify_rows, "rows of the check", batch=batch.batch, gamma=drafted)
        best = _gained(rounds.at(batch.batch, batch.best_gamma))
        sequences = rounds.target.deployment.data_parallel_size * batch.batch
        rate = explain(throughput, "throughput", batch=sequences, step_time_s=batch.tpot_s)
        yield from labelled(name, [rows, rate])
        yield from labelled(f"{name}, best γ {batch.best_gamma}", best)
    yield from _full(rounds, result)


def _tokens(rounds: Rounds, gamma: int) -> Iterator[Figure]:
    """Of a chain the closed form; where candidates or positions differ, the sum over levels that all held."""
    acceptance, levels = rounds.acceptance, rounds.drafter.tree.levels(gamma)
    chain = acceptance.of_level or all(width == 1 for width in levels)
    if chain and not acceptance.positions:
        yield explain(formulas.tokens_per_pass, "tokens per pass", alpha=acceptance.rate, gamma=gamma,
                      decay=acceptance.decay)  # fmt: skip
        return
    chances = [acceptance.at(i) if chain else formulas.branch_acceptance(acceptance.at(i), width)
               for i, width in enumerate(levels)]  # fmt: skip
    held, parts = 1.0, {"its_own": 1.0}
    for level, chance in enumerate(chances, 1):
        held *= chance
        parts[f"level_{level}"] = held
    yield total("tokens per pass", parts, "tokens", "Leviathan et al. 2023, equation 1, level by level")


def _round(rounds: Rounds, at: Round, batch: int, gamma: int) -> Iterator[Figure]:
    """The check and the draft, in seconds."""
    plain, check = single(at.plain_s), single(at.verify_s)
    yield _check(rounds, check, batch, rounds.drafter.tree.drafted(gamma) + 1)
    inputs = {"check_s": check, "plain_step_s": plain}
    yield figure_of("check over the plain step", "check_s / plain_step_s", inputs, "1", SOURCE)
    passes = rounds.drafter.passes(gamma)
    if passes:
        inputs = {"passes": passes, "pass_s": single(at.draft_s) / passes}
        yield figure_of("draft", "passes * pass_s", inputs, "s", SOURCE)


def _check(rounds: Rounds, check_s: float, batch: int, rows_each: int) -> Figure:
    """A pass of the target over the drafted rows: its operators, and what the engine adds."""
    step = Step(decode=batch, context=rounds.context, rows_each=rows_each)
    if rounds.overheads.copies_rows:
        step = Step(decode=batch * rows_each, context=rounds.context)
    one = Pass(rounds.target.replica, step)
    if rounds.target.replica.ideal:
        return time_figure("check", rounds.target, one)
    parts = {time.operator.name: single(time.time_s) for time in one.operator_times}
    parts["launches_and_engine"] = check_s - sum(parts.values())
    return total("check", parts, "s", ESTIMATE_SOURCE)


def _parts(at: Round) -> Mapping[str, float]:
    return {"tokens": single(at.tokens), "check_s": single(at.verify_s), "draft_s": single(at.draft_s),
            "engine_s": single(at.engine_s)}  # fmt: skip


def _gained(at: Round) -> Iterator[Figure]:
    """A token's time, and the speed-up."""
    round_s = "(check_s + draft_s + engine_s)"
    yield figure_of("time per output token", f"{round_s} / tokens", _parts(at), "s", SOURCE)
    inputs = {**_parts(at), "plain_step_s": single(at.plain_s)}
    yield figure_of("speed-up", f"tokens * plain_step_s / {round_s}", inputs, "1", SOURCE)


def _ratios(result: SpeculateResult) -> Iterator[Figure]:
    plain = result.plain_step_s
    if result.draft_cost_ratio:
        yield explain(formulas.draft_cost_ratio, "draft cost ratio", target_step_time_s=plain,
                      draft_step_time_s=result.draft_cost_ratio * plain)  # fmt: skip
    parts = {"check_s": result.verify_s, "draft_s": result.draft_s, "engine_s": result.engine_s,
             "tokens": result.tokens_per_pass}  # fmt: skip
    yield figure_of("time per output token, drafted", "(check_s + draft_s + engine_s) / tokens", parts, "s", SOURCE)


def _rates(rounds: Rounds, result: SpeculateResult) -> Iterator[Figure]:
    """Tokens per second and their cost, with drafts and without."""
    target = rounds.target
    sequences = target.deployment.data_parallel_size * result.batch
    for name, step_s, rate in (
        ("with drafts", result.tpot_s, result.output_tokens_per_s),
        ("without drafts", result.plain_step_s, result.plain_output_tokens_per_s),
    ):
        yield explain(throughput, f"throughput {name}", batch=sequences, step_time_s=step_s)
        if target.price is not None:
            yield explain(usd_per_million_tokens, f"USD per million output tokens {name}", gpus=target.bill.gpus,
                          usd_per_gpu_hour=target.price.median_usd_per_hour, tokens_per_s=rate)  # fmt: skip


def _full(rounds: Rounds, result: SpeculateResult) -> Iterator[Figure]:
    """From which acceptance a round pays, and a full server with the draft in memory and without."""
    least, memory = result.pays_from_acceptance, result.memory
    if least is not None and not rounds.drafter.tree.widths:
        yield explain(formulas.tokens_per_pass, "tokens per pass from which it pays", alpha=least,
                      gamma=result.gamma or 1, decay=rounds.acceptance.decay)  # fmt: skip
    for name, value in (("weights", memory.weight_bytes), ("cache of a token", memory.cache_bytes_per_token)):
        source = "the draft's own tensors and cache, counted"
        yield figure_of(f"draft's {name}", "bytes_of_the_draft", {"bytes_of_the_draft": value}, "bytes", source)
    full = result.at_capacity
    if full is None:
        return
    replicas = rounds.target.deployment.data_parallel_size
    drafted, plain = full.batch * replicas, full.plain_batch * replicas
    yield explain(throughput, "a full server with drafts", batch=drafted,
                  step_time_s=single(rounds.at(full.batch, result.gamma or 1).tpot_s))  # fmt: skip
    yield explain(throughput, "a full server without", batch=plain,
                  step_time_s=single(rounds.plain_s(full.plain_batch)))  # fmt: skip
    inputs = {"with_drafts": full.output_tokens_per_s, "without": full.plain_output_tokens_per_s}
    yield figure_of("a full server gains", "with_drafts / without", inputs, "1", SOURCE)
