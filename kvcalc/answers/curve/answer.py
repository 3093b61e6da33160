"""`kvcalc curve`: throughput and cost against the speed that each user sees."""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from math import prod
from typing import Any

from kvcalc.answers.assumptions import assumptions_of, price_warnings
from kvcalc.answers.common_assumptions import Name, gathered
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.answers.speed import Point, point_of, step_time_of
from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError
from kvcalc.formulas.step import throughput
from kvcalc.results.base import Range
from kvcalc.results.curve import CurvePoint, CurveReport, CurveResult, UnderTarget
from kvcalc.specs.base import Assumption
from kvcalc.specs.checked import flag_of
from kvcalc.timing.steady import largest_batch

MOST_POINTS = 20_000
LARGEST_BATCH = 4096


def curve(model: str, swept: Mapping[str, list[Any]], flags: Mapping[str, Any]) -> CurveReport:
    """One point for each GPU, tp, context and batch; without batches, powers of two up to what fits.

    Raises:
        KvcalcError: no GPU, or too many points.
    """
    if "gpu" not in swept:
        raise KvcalcError("no GPU given", hint="name one or several with --gpu; `kvcalc gpus` lists them")
    along = {name: list(dict.fromkeys(values)) for name, values in swept.items()}
    texts = along.pop("batch", [])
    over = "context" if len(texts) == 1 and len(along.get("context", along.get("input_len", []))) > 1 else "batch"
    if prod(map(len, along.values())) * (len(texts) or LARGEST_BATCH.bit_length()) > MOST_POINTS:
        raise KvcalcError(f"more than {MOST_POINTS:,} points", hint="sweep fewer values at once")
    assumptions: list[tuple[Name, tuple[Assumption, ...]]] = []
    points: list[CurvePoint] = []
    under: list[UnderTarget] = []
    warnings: dict[str, None] = {}
    load = cache(load_model)
    for values in product(*along.values()):
        one = {**flags, **dict(zip(along, values, strict=True))}
        questions = [ask(model, {**one, "batch": text}, load=load) for text in texts] or [ask(model, one, load=load)]
        deployed = Deployed(questions[0])
        given = [q.workload.batch for q in questions if texts and q.workload.batch is not None]
        points.extend(_points(deployed, given))
        under.extend(_under_target(deployed))
        at = deployed.operating_point()
        name = {"gpu": deployed.gpu.name, "tp": deployed.deployment.tensor_parallel_size, "context": at.context}
        assumptions.append((name, (*questions[0].assumptions, *assumptions_of(deployed), *at.assumptions)))
        warnings.update(dict.fromkeys((*at.warnings, *price_warnings(deployed))))
    found = [one.batch for one in under if one.batch is not None]
    return CurveReport(
        inputs={"model": deployed.model.name, **{flag_of(k)[2:]: v for k, v in {**flags, **swept}.items()}},
        result=CurveResult(
            model=deployed.model.name,
            over=over,
            tpot_target_s=deployed.question.workload.tpot_s,
            largest_batch_under_tpot=max(found, default=None),
            under_tpot=tuple(under),
            points=tuple(points),
        ),
        assumptions=gathered(assumptions),
        sources=deployed.model.sources,
        warnings=tuple(warnings),
    )


def _under_target(deployed: Deployed) -> Iterator[UnderTarget]:
    """The largest batch that fits and whose step is at most the target: by the estimate, by the bound with `ideal`."""
    target = deployed.question.workload.tpot_s
    if target is None:
        return
    point = deployed.operating_point()
    fits = deployed.max_batch(point.context)
    most = LARGEST_BATCH if fits is None else min(fits, LARGEST_BATCH)
    best = None
    if most >= 1:
        best = largest_batch(lambda batch: float(step_time_of(deployed, point.mean_context, batch)), target, most)
    yield UnderTarget(
        gpu=deployed.gpu.name, tp=deployed.deployment.tensor_parallel_size, context=point.context, batch=best
    )


def _points(deployed: Deployed, given: list[int]) -> Iterator[CurvePoint]:
    """One curve, all batches at once."""
    import numpy as np

    at = deployed.operating_point()
    batches = list(dict.fromkeys(given)) or _powers(at.batch)
    point = point_of(deployed, at.mean_context, np.array(batches, dtype=float))
    largest = deployed.max_batch(at.context)
    input_usd = _input_usd(deployed)
    for i, batch in enumerate(batches):
        fits = deployed.capacity is not None and (largest is None or batch <= largest)
        yield _point(point, i, batch, at.context, fits, input_usd)


def _input_usd(deployed: Deployed) -> float | None:
    """None unless the length of a prompt is given, and with `--engine ideal`, which estimates no time."""
    length = deployed.question.workload.input_len
    if length is None or deployed.deployment.engine == "ideal":
        return None
    from kvcalc.answers.serving import usd_per_million_input_tokens

    return usd_per_million_input_tokens(deployed, length)


def _powers(most: int | None) -> list[int]:
    """1, 2, 4 ... and what fits; where nothing fits, what a user might have hoped for."""
    last = min(most or 64, LARGEST_BATCH)
    powers = [2**i for i in range(last.bit_length()) if 2**i <= last]
    return powers if powers[-1] == last else [*powers, last]


def _point(point: Point, i: int, batch: int, context: int, fits: bool, input_usd: float | None) -> CurvePoint:
    """The i-th element of a point of arrays."""

    def at(value: Any) -> float:
        return float(value[i]) if getattr(value, "ndim", 0) else float(value)

    deployed, estimate = point.deployed, point.estimate_s
    time = at(point.best_step_s)
    speed = throughput(batch * deployed.deployment.data_parallel_size, time)
    cost = point.usd_per_million_tokens(point.best_step_s)
    return CurvePoint(
        gpu=deployed.gpu.name,
        tp=deployed.deployment.tensor_parallel_size,
        batch=batch,
        context=context,
        bytes=at(point.bytes),
        flops=at(point.flops),
        intensity_flop_per_byte=at(point.flops) / at(point.bytes),
        memory_time_s=at(point.memory_time_s),
        compute_time_s=at(point.compute_time_s),
        bound_s=at(point.bound_s),
        operator_bound_s=at(point.operator_bound_s),
        estimate_s=None
        if estimate is None
        else Range(value=at(estimate.value), low=at(estimate.low), high=at(estimate.high)),
        output_tokens_per_s=speed,
        output_tokens_per_s_per_gpu=speed / deployed.deployment.gpus,
        output_tokens_per_s_per_user=1 / time,
        usd_per_million_output_tokens=None if cost is None else at(cost),
        usd_per_million_input_tokens=input_usd,
        fits=fits,
    )
