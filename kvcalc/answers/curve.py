"""`kvcalc curve`: throughput and cost against the speed that each user sees."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.answers.speed import Point, point_of
from kvcalc.errors import KvcalcError
from kvcalc.reports.curve import CurvePoint, CurveReport, CurveResult
from kvcalc.specs.base import Assumption
from kvcalc.specs.checked import flag_of

MOST_POINTS = 5000
LARGEST_BATCH = 4096


def curve(model: str, swept: Mapping[str, list[Any]], flags: Mapping[str, Any]) -> CurveReport:
    """One point for each GPU, tp, context and batch; without batches, powers of two up to what fits."""
    if "gpu" not in swept:
        raise KvcalcError("no GPU given", hint="name one or several with --gpu; `kvcalc gpus` lists them")
    along = {name: list(dict.fromkeys(values)) for name, values in swept.items()}
    batches = along.pop("batch", None)
    over = "context" if batches is not None and len(batches) == 1 and len(along.get("context", [])) > 1 else "batch"
    assumptions: dict[Assumption, None] = {}
    points: list[CurvePoint] = []
    sources: dict[Any, None] = {}
    name, target = model, None
    for values in product(*along.values()):
        one = {**flags, **dict(zip(along, values, strict=True))}
        for batch in batches or [None]:
            question = ask(model, one if batch is None else {**one, "batch": batch})
            deployed = Deployed(question)
            points.extend(_points(deployed, given=batch is not None))
            assumptions.update(dict.fromkeys((*question.assumptions, *deployed.assumptions)))
            sources.update(dict.fromkeys(deployed.model.sources))
            name, target = deployed.model.name, question.workload.tpot_s
        if len(points) > MOST_POINTS:
            raise KvcalcError(f"more than {MOST_POINTS:,} points", hint="sweep fewer values at once")
    under = [p.batch for p in points if p.fits and target is not None and _tpot(p) <= target]
    return CurveReport(
        inputs={"model": name, **{flag_of(k)[2:]: v for k, v in {**flags, **swept}.items()}},
        result=CurveResult(
            model=name,
            over=over,
            tpot_target_s=target,
            largest_batch_under_tpot=max(under, default=None),
            points=tuple(points),
        ),
        assumptions=tuple(assumptions),
        sources=tuple(sources),
    )


def _tpot(point: CurvePoint) -> float:
    return point.bound_s if point.estimate_s is None else point.estimate_s.value


def _points(deployed: Deployed, given: bool) -> Iterator[CurvePoint]:
    point = deployed.operating_point()
    largest = deployed.max_batch(point.context)
    batches = [point.batch or 1] if given else _powers(point.batch)
    for batch in batches:
        fits = deployed.capacity is not None and (largest is None or batch <= largest)
        yield _point(deployed, point_of(deployed, point.mean_context, batch), point.context, fits)


def _powers(most: int | None) -> list[int]:
    """1, 2, 4 ... and what fits; where nothing fits, what a user might have hoped for."""
    last = min(most or 64, LARGEST_BATCH)
    powers = [2**i for i in range(last.bit_length()) if 2**i <= last]
    return powers if powers[-1] == last else [*powers, last]


def _point(deployed: Deployed, at: Point, context: int, fits: bool) -> CurvePoint:
    gpus = deployed.deployment.gpus
    cost, speed = at.bound.usd_per_million_output_tokens, at.bound.output_tokens_per_s
    if at.estimate is not None:
        price = at.estimate.usd_per_million_output_tokens
        cost, speed = None if price is None else price.value, at.estimate.output_tokens_per_s.value
    return CurvePoint(
        gpu=deployed.gpu.name,
        tp=deployed.deployment.tensor_parallel_size,
        batch=at.batch,
        context=context,
        bytes=at.bytes,
        flops=at.flops,
        intensity_flop_per_byte=at.flops / at.bytes,
        memory_time_s=at.memory_time_s,
        compute_time_s=at.compute_time_s,
        bound_s=at.bound.step_time_s,
        operator_bound_s=at.operator_bound_s,
        estimate_s=at.estimate_s,
        output_tokens_per_s=speed,
        output_tokens_per_s_per_gpu=speed / gpus,
        output_tokens_per_s_per_user=1 / at.best_step_s,
        usd_per_million_output_tokens=cost,
        fits=fits,
    )
