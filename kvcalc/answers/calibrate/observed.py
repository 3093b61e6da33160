"""Measurements beside what a calibrated machine says in their place."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any, NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import running_at_once
from kvcalc.answers.question import Question
from kvcalc.catalog.bench.measurement import Measurement, Served
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Step
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.calibration import Calibration
from kvcalc.specs.gpu import GpuSpec
from kvcalc.timing.passes import Pass
from kvcalc.timing.prompts import Requests, alone_time
from kvcalc.timing.replica import Replica
from kvcalc.timing.serving import steady_state

MANY = 1e6  # waves: no first one to speak of


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
    kept = (one for one in measurements if _places(question, one) is None)
    return [one for measured in kept for one in _of(question, measured)]


def left_out(question: Question, measurements: Sequence[Measurement]) -> tuple[Assumption, ...]:
    """Runs with more clients than run at once: their first token is a wait for a place, which no factor is of."""
    found = []
    for one in measurements:
        places = _places(question, one)
        if places is not None:
            assert isinstance(one, Served)
            why = f"{one.concurrency:,.0f} in flight, and {places:,} run at once: its wait is no term's"
            found.append(Assumption(name="left out", value=one.source, why=why))
    return tuple(found)


def _places(question: Question, measured: Measurement) -> int | None:
    """How many run at once, where more were in flight; None where all had a place."""
    if not isinstance(measured, Served):
        return None
    _require_room(question, measured)
    places = running_at_once(Deployed(question), ceil(measured.input_len), ceil(measured.output_len))
    return places if places is not None and measured.concurrency > places else None


def _of(question: Question, measured: Measurement) -> list[Observation]:
    if isinstance(measured, Served):
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
