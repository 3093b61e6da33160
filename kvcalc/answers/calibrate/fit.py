"""One factor a term from measurements: the decode step, the prompt, and what the engine adds."""

from collections.abc import Callable, Sequence
from math import exp
from statistics import median
from typing import Any, NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import Question
from kvcalc.catalog.bench.measurement import Measurement, Served
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Step
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.calibration import Calibration
from kvcalc.specs.gpu import GpuSpec
from kvcalc.timing.passes import Pass
from kvcalc.timing.prompts import Requests, alone_time
from kvcalc.timing.replica import Replica
from kvcalc.timing.serving import steady_state

TERMS = ("decode", "prompt", "overhead")
# Judgements: factors are pulled to 1 as far as measurements leave them open.
MEASURED = 0.05  # how far one measurement is trusted, relative
USUAL = 0.5  # how far factors stray from 1, in logarithms
ROUNDS = 12  # of least squares; the last move nothing
NUDGE = 0.01  # of a factor, to see what it moves
MANY = 1e6  # waves: no first one to speak of
FELT = 0.02  # a term counts as measured where its factor moves some prediction by this share of its own move


class Observation(NamedTuple):
    """One measured number, and what a calibrated machine says in its place."""

    name: str
    measured: float
    predict: Callable[[Calibration], float]


def observations(question: Question, measurements: Sequence[Measurement]) -> list[Observation]:
    """Every number that was measured, beside its prediction.

    Raises:
        KvcalcError: a measurement that this deployment cannot have made.
    """
    return [one for measured in measurements for one in _of(question, measured)]


def _of(question: Question, measured: Measurement) -> list[Observation]:
    if isinstance(measured, Served):
        _require_room(question, measured)
        replica = replica_of(question)
        waves = measured.num_prompts / measured.concurrency if measured.together else MANY
        asked = Requests(measured.input_len, measured.output_len, waves=max(1.0, waves))
        found = []
        if measured.tpot_s and measured.output_len > 1:  # one token out has no time between tokens
            found.append(Observation(f"{measured.source}: TPOT", measured.tpot_s, _tpot(replica, asked, measured)))
        if measured.ttft_s:
            found.append(Observation(f"{measured.source}: TTFT", measured.ttft_s, _ttft(replica, asked, measured)))
        return found
    if not rules(question.deployment.engine).OFFLOADS:
        raise KvcalcError(f"{measured.source} is llama-bench's", hint="add --engine llamacpp")
    said: dict[str, Any] = dict(measured.settings)
    replica = replica_of(question._replace(deployment=replace(question.deployment, **said)))
    kind = "decode step" if measured.decodes else "prompt"
    name = f"{measured.source}: {kind}, {measured.tokens} tokens at {measured.depth}"
    if measured.decodes:
        step = Step(decode=measured.batch, context=measured.depth + measured.tokens / 2)

        def seconds(factors: Calibration) -> float:
            return single(Pass(calibrated(replica, factors), step).time_s)
    else:
        whole = Requests(measured.depth + measured.tokens, 1, prefix_hit=measured.depth)

        def seconds(factors: Calibration) -> float:
            return single(alone_time(calibrated(replica, factors), whole).value)

    return [Observation(name, measured.seconds, seconds)]


def _require_room(question: Question, measured: Served) -> None:
    most = Deployed(question).max_model_len
    if most is not None and measured.input_len + measured.output_len > most:
        said = f"{measured.source}: {measured.input_len:,.0f} + {measured.output_len:,.0f} tokens a request on average"
        raise KvcalcError(
            f"{said} do not go into max_model_len = {most:,}",
            hint="give the model and the --max-model-len that were measured",
        )


def _tpot(replica: Replica, asked: Requests, measured: Served) -> Callable[[Calibration], float]:
    def predict(factors: Calibration) -> float:
        found = steady_state(calibrated(replica, factors), asked, measured.concurrency).tpot
        assert found is not None
        return float(found.value)

    return predict


def _ttft(replica: Replica, asked: Requests, measured: Served) -> Callable[[Calibration], float]:
    return lambda factors: float(steady_state(calibrated(replica, factors), asked, measured.concurrency).ttft.value)


def replica_of(question: Question) -> Replica:
    """The deployment on its GPU as the data sheets have it: without an earlier calibration."""
    gpu: GpuSpec = replace(question.the_gpu, calibration=None)
    return Deployed(question._replace(gpu=gpu)).replica


def calibrated(replica: Replica, factors: Calibration) -> Replica:
    """The replica on a machine whose terms have these factors."""
    return replace(replica, machine=replica.machine.calibrated(factors))


def fit(engine: str, seen: Sequence[Observation]) -> Calibration:
    """Factors that explain the measurements: least squares of logarithms, drawn to 1 where nothing speaks.

    Gauss-Newton on log(measured) - log(predicted), each trusted to 5 %, factors within a factor of 1.6 of 1 unless the
    measurements say more.

    Raises:
        KvcalcError: nothing was measured.
    """
    if not seen:
        raise KvcalcError("no measurement to calibrate by", hint="give results that have a TPOT, a TTFT or a rate")
    import numpy as np

    def residuals(moved: list[float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        factors = _factors(engine, moved)
        return np.log([one.measured / one.predict(factors) for one in seen]) / MEASURED

    moved = np.zeros(len(TERMS))
    slopes = np.zeros((len(seen), len(TERMS)))
    for _ in range(ROUNDS):
        now = residuals(list(moved))
        for term in range(len(TERMS)):
            nudged = moved.copy()
            nudged[term] += NUDGE
            slopes[:, term] = (residuals(list(nudged)) - now) / NUDGE
        system = np.vstack([slopes, np.eye(len(TERMS)) / USUAL])
        change = np.linalg.lstsq(system, np.concatenate([-now, -moved / USUAL]), rcond=None)[0]
        moved = moved + np.clip(change, -1, 1)
        if np.abs(change).max() < 1e-4:
            break
    felt = np.abs(slopes * MEASURED).max(axis=0) > FELT
    found = _factors(engine, [float(value) if seen_ else 0.0 for value, seen_ in zip(moved, felt, strict=True)])
    return replace(
        found,
        measurements=len(seen),
        error=_error(seen, found),
        error_without=_error(seen, Calibration(engine=engine)),
    )


def _factors(engine: str, moved: Sequence[float]) -> Calibration:
    decode, prompt, overhead = map(exp, moved)
    return Calibration(engine=engine, decode=decode, prompt=prompt, overhead=overhead)


def _error(seen: Sequence[Observation], factors: Calibration) -> float:
    return median(abs(one.predict(factors) / one.measured - 1) for one in seen)
