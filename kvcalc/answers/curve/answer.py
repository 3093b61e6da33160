"""`kvcalc curve`: throughput and cost against the speed that each user sees.

Along a curve varies the batch of a decode step or, where lengths are given, the number of clients of a server.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from math import prod
from typing import Any

from kvcalc.answers.assumptions import assumptions_of, price_warnings
from kvcalc.answers.common_assumptions import Name, gathered
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import figure_of, labelled
from kvcalc.answers.load import running_at_once
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import Question, ask
from kvcalc.answers.serving_working import serving_working
from kvcalc.answers.step.rows import rows_of, sums
from kvcalc.answers.subject import roofline
from kvcalc.answers.unused import unused
from kvcalc.answers.verdict import verdict
from kvcalc.answers.working import working
from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Figure
from kvcalc.results.curve import CurvePoint, CurveReport, CurveResult, UnderTarget
from kvcalc.results.size import FIT_ORDER
from kvcalc.specs.base import Assumption
from kvcalc.specs.checked import flag_of
from kvcalc.timing.serving import largest_batch
from kvcalc.units import format_count

MOST_POINTS = 20_000
LARGEST_BATCH = 4096
ALONG = ("batch", "concurrency")  # what varies along one curve, all others from curve to curve


def curve(
    model: str, swept: Mapping[str, list[Any]], flags: Mapping[str, Any], with_working: bool = False
) -> CurveReport:
    """One point for each GPU, tp, context and batch or concurrency; without these, powers of two up to what fits.

    Raises:
        KvcalcError: no GPU, too many points, or a batch where clients vary.
    """
    if "gpu" not in swept:
        raise KvcalcError("no GPU given", hint="name one or several with --gpu; `kvcalc gpus` lists them")
    kept = {name: list(dict.fromkeys(values)) for name, values in swept.items()}
    texts = {name: kept.pop(name, []) for name in ALONG}
    _require_few(kept, texts)
    assumptions: list[tuple[Name, tuple[Assumption, ...]]] = []
    points: list[CurvePoint] = []
    under: list[UnderTarget] = []
    warnings: dict[str, None] = {}
    figures: list[Figure] = []
    load = cache(load_model)
    for values in product(*kept.values()):
        one = {**flags, **dict(zip(kept, values, strict=True))}
        asked = [ask(model, {**one, **dict(zip(ALONG, pair, strict=True))}, load=load) for pair in _pairs(texts)]
        found = Curve(asked)
        points.extend(found.points())
        under.extend(found.under_target())
        if with_working:
            figures.extend(found.working())
        deployed, at = found.deployed, found.speed.point
        name = {"gpu": deployed.gpu.name, "tp": deployed.deployment.tensor_parallel_size, "context": at.context}
        assumptions.append(
            (name, (*asked[0].assumptions, *assumptions_of(deployed), *found.speed.assumptions, *found.unused()))
        )
        warnings.update(dict.fromkeys((*at.warnings, *price_warnings(deployed))))
    return CurveReport(
        inputs={"model": deployed.model.name, **{flag_of(k)[2:]: v for k, v in {**flags, **swept}.items()}},
        result=_result(deployed, _over(kept, texts, deployed.lengths is not None), points, under),
        figures=tuple(figures),
        assumptions=gathered(assumptions),
        sources=deployed.model.sources,
        warnings=tuple(warnings),
    )


def _result(deployed: Deployed, over: str, points: list[CurvePoint], under: list[UnderTarget]) -> CurveResult:
    served = deployed.lengths is not None
    best = min(points, key=lambda one: FIT_ORDER.index(one.fit))
    return CurveResult(
        model=deployed.model.name,
        fits=best.fits,
        fit=best.fit,
        reason=best.reason,
        over=over,
        tpot_target_s=deployed.question.workload.tpot_s,
        largest_batch_under_tpot=None if served else max((one.batch or 0 for one in under), default=0) or None,
        largest_concurrency_under_tpot=max((one.concurrency or 0 for one in under), default=0) or None,
        under_tpot=tuple(under),
        points=tuple(points),
    )


def _require_few(kept: Mapping[str, list[Any]], texts: Mapping[str, list[Any]]) -> None:
    each = max(map(len, (*texts.values(), range(LARGEST_BATCH.bit_length()))))
    if prod(map(len, kept.values())) * each > MOST_POINTS:
        raise KvcalcError(f"more than {MOST_POINTS:,} points", hint="sweep fewer values at once")


def _pairs(texts: Mapping[str, list[Any]]) -> list[tuple[Any, Any]]:
    """Every given batch and concurrency: (None, None) where neither is."""
    return list(product(*(texts[name] or [None] for name in ALONG)))


def _over(kept: Mapping[str, list[Any]], texts: Mapping[str, list[Any]], served: bool) -> str:
    """What varies along a curve: the batch or the clients, unless one of them is given and the context varies."""
    name = "concurrency" if served else "batch"
    several = len(kept.get("context", kept.get("input_len", []))) > 1
    return "context" if len(texts[name]) == 1 and several else name


class Curve:
    """The questions of one curve: a deployment, at every batch or number of clients that was given."""

    def __init__(self, asked: list[Question]) -> None:
        self.question = asked[0]
        self.deployed = Deployed(self.question)
        self.speed = Performance(self.deployed)
        self.served = self.deployed.lengths is not None
        if self.served and asked[0].workload.batch is not None:
            raise KvcalcError(
                "with --isl and --osl the clients vary, not the batch of a step", hint="sweep --concurrency instead"
            )
        name = "concurrency" if self.served else "batch"
        self.given = list(dict.fromkeys(n for one in asked if (n := getattr(one.workload, name)) is not None))

    def points(self) -> Iterator[CurvePoint]:
        for size in self.given or _powers(self._most()):
            yield _point(self._at(size), self.deployed)

    def working(self) -> Iterator[Figure]:
        """Each point's figures, from the bytes of its step to its cost."""
        deployed, name = self.deployed, "concurrency" if self.served else "batch"
        where = f"{deployed.gpu.name}, TP{deployed.deployment.tensor_parallel_size}, {name}"
        for size in self.given or _powers(self._most()):
            at = self._at(size)
            step = () if at.step is None else sums(rows_of(deployed, at.step))
            at_context = f"{where} {format_count(size)} at {format_count(at.point.context)}"
            yield from labelled(at_context, (*working(at), *step, *serving_working(at), *_shares(at)))

    def unused(self) -> tuple[Assumption, ...]:
        """Flags that change no point of the curve."""

        def figures(question: Question) -> object:
            other = Curve([question])
            other.given = self.given
            return tuple(other.points()), tuple(other.under_target())

        return unused(self.question, figures)

    def _at(self, size: int) -> Performance:
        if not self.served:
            return Performance(self.deployed, batch=size)
        found = Performance(self.deployed, concurrency=size)
        # The step beside serving is of those that run.
        running = found.clients.running if found.clients else size
        return Performance(self.deployed, batch=running, concurrency=size)

    def _most(self) -> int | None:
        lengths = self.deployed.lengths
        return self.speed.point.batch if lengths is None else running_at_once(self.deployed, *lengths)

    def under_target(self) -> Iterator[UnderTarget]:
        """The largest batch that fits, or number of clients that run at once, with at most the target a token."""
        target = self.deployed.question.workload.tpot_s
        if target is None:
            return
        point = self.speed.point
        lengths = self.deployed.lengths
        fits = running_at_once(self.deployed, *lengths) if lengths else self.deployed.max_batch(point.context)
        most = LARGEST_BATCH if fits is None else min(fits, LARGEST_BATCH)
        best = largest_batch(self._tpot, target, most) if most >= 1 else None
        yield UnderTarget(
            gpu=self.deployed.gpu.name,
            tp=self.deployed.deployment.tensor_parallel_size,
            context=point.context,
            batch=None if self.served else best,
            concurrency=best if self.served else None,
        )

    def _tpot(self, size: int) -> float:
        found = self._at(size).headline
        return 0.0 if found is None or found.tpot_s is None else found.tpot_s.value


def _shares(speed: Performance) -> Iterator[Figure]:
    """What one GPU makes, and what one user sees."""
    found = speed.headline
    if found is None:
        return
    rate = {"output_tokens_per_s": found.output_tokens_per_s.value, "gpus": speed.deployed.deployment.gpus}
    yield figure_of("tokens/s per GPU", "output_tokens_per_s / gpus", rate, "tokens/s", "arithmetic")
    if found.tpot_s is not None:
        yield figure_of("tokens/s per user", "1 / tpot_s", {"tpot_s": found.tpot_s.value}, "tokens/s", "arithmetic")


def _powers(most: int | None) -> list[int]:
    """1, 2, 4 ... and what fits; where nothing fits, what a user might have hoped for."""
    last = min(most or 64, LARGEST_BATCH)
    powers = [2**i for i in range(last.bit_length()) if 2**i <= last]
    return powers if powers[-1] == last else [*powers, last]


def _point(speed: Performance, deployed: Deployed) -> CurvePoint:
    step, found, estimate = speed.step, speed.headline, speed.estimate
    assert step is not None
    assert found is not None
    cost, tpot = found.usd_per_million_output_tokens, found.tpot_s
    rate = found.output_tokens_per_s.value
    fitting = verdict(deployed, speed.point, batch=None if speed.clients else speed.point.batch)
    return CurvePoint(
        gpu=deployed.gpu.name,
        tp=deployed.deployment.tensor_parallel_size,
        batch=speed.point.batch or 0,
        concurrency=None if speed.clients is None else speed.clients.concurrency,
        context=speed.point.context,
        **roofline(step),
        operator_bound_s=float(step.operator_bound_s),
        estimate_s=None if estimate is None else estimate.step_time_s,
        tpot_s=None if tpot is None else tpot.value,
        output_tokens_per_s=rate,
        output_tokens_per_s_per_gpu=rate / deployed.deployment.gpus,
        output_tokens_per_s_per_user=None if tpot is None else 1 / tpot.value,
        usd_per_million_output_tokens=None if cost is None else cost.value,
        serving=speed.serving,
        fits=fitting.fits,
        fit=fitting.fit,
        reason=fitting.reason,
    )
