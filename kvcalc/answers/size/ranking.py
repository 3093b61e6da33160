"""`kvcalc size` without a GPU: the same question put to the GPUs that can be rented or fill servers, ranked."""

from collections.abc import Iterator

from kvcalc.answers.explain import labelled
from kvcalc.answers.question import Question, moved
from kvcalc.answers.size.answer import size
from kvcalc.catalog.gpus import gpu_names, offered_gpus
from kvcalc.catalog.prices import price_of
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Figure, Range
from kvcalc.results.ranking import RankedGpu, RankingReport, RankingResult
from kvcalc.results.size import FIT_ORDER, SizeReport, SizeResult
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import format_things

OF_SERVING = (
    *("time to first token, all running", "time to first token, with the wait for a place", "time per output token"),
    *("output tokens per second", "USD per million output tokens, serving"),
)
SERVED_SINCE = 2020  # the newest engines have dropped the server cards before (Volta and older)


def rank(question: Question, with_working: bool = True) -> RankingReport:
    """The GPUs with a price or made for servers: what fits first, then the cheapest per token, then the fastest.

    The first is answered in full; `with_working`: with the figures behind `--explain`. A GPU that lacks what the
    question needs (a link for the parallel size, an element type) is left out, with a warning.

    Raises:
        KvcalcError: no GPU can answer.
    """
    found: list[tuple[RankedGpu, SizeReport]] = []
    engine = rules(question.deployment.engine)
    offered = [gpu for gpu in offered_gpus() if _is_of_today(gpu)]
    candidates = [gpu for gpu in offered if gpu.vendor not in engine.NOT_ON]
    left_out = (
        [f"{format_things(gone, 'GPU')} left out: {engine.TITLE} does not run there"]
        if (gone := len(offered) - len(candidates))
        else []
    )
    for gpu in candidates:
        try:
            report = size(moved(question, gpu), with_advice=False, with_working=with_working)
        except KvcalcError as error:
            left_out.append(f"{gpu.name} is left out: {error.message}")
            continue
        found.append((_ranked(gpu.name, gpu.title, gpu.memory_bytes, report.result), report))
    if not found:
        raise KvcalcError("no GPU in the catalogue can answer this", hint="name one with --gpu to see why")
    found.sort(key=lambda pair: _order(pair[0]))
    best = found[0][1]
    left_unasked = len(gpu_names()) - len(offered)
    result = RankingResult(**vars(best.result), ranking=tuple(row for row, _ in found), not_ranked=left_unasked)
    figures = (*best.figures, *(one for row, report in found for one in labelled(row.gpu, _shown(report))))
    return RankingReport(
        **{**vars(best), "result": result, "figures": figures, "warnings": (*best.warnings, *left_out)}
    )


def _shown(report: SizeReport) -> Iterator[Figure]:
    """Of a GPU's figures those that the table has."""
    served = any(one.name == "time per output token" for one in report.figures)
    of_step = ("estimate", "throughput at the estimate", "USD per million output tokens at the estimate")
    wanted = OF_SERVING if served else of_step
    return (
        one for one in report.figures if one.name in wanted or one.name == f"sequences at {report.result.context:,}"
    )


def _is_of_today(gpu: GpuSpec) -> bool:
    """Has somebody a price for it, or is it a server's card of today?"""
    return price_of(gpu) is not None or (gpu.launch_year or 0) >= SERVED_SINCE


def _ranked(name: str, title: str, memory_bytes: int, result: SizeResult) -> RankedGpu:
    bound, found = result.bound, result.headline
    cost = None if found is None else found.usd_per_million_output_tokens
    return RankedGpu(
        gpu=name,
        title=title,
        fits=result.fits,
        fit=result.fit,
        reason=result.reason,
        memory_bytes=memory_bytes,
        max_batch=result.max_batch,
        kv_cache_size_tokens=result.kv_cache_size_tokens,
        bound_step_time_s=bound.step_time_s if bound else None,
        ttft_s=None if found is None else _value(found.ttft_s),
        tpot_s=None if found is None else _value(found.tpot_s),
        output_tokens_per_s=None if found is None else found.output_tokens_per_s.value,
        usd_per_million_output_tokens=_value(cost),
    )


def _value(one: Range | None) -> float | None:
    return None if one is None else one.value


def _order(row: RankedGpu) -> tuple[int, bool, float, float, int]:
    """Of what does not fit, the largest first, for it came nearest; what is not predicted last."""
    cost = row.usd_per_million_output_tokens
    speed, size = -(row.output_tokens_per_s or 0), -row.memory_bytes
    return (FIT_ORDER.index(row.fit), row.max_batch is None, float("inf") if cost is None else cost, speed, size)
