"""Limits on what requests get one by one: those of `simulate`, with the same flags and a fixed seed."""

from kvcalc.answers.question import Question
from kvcalc.answers.simulate.answer import simulate
from kvcalc.answers.simulate.ask import workload_of
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Range
from kvcalc.results.simulate import SimulateResult, Value
from kvcalc.specs.base import replace
from kvcalc.specs.budget import Limits

WAY = {"min-goodput": "at least"}
TARGETS = {"max-simulated-ttft": "ttft", "max-simulated-tpot": "tpot", "max-simulated-e2e": "e2e"}


def simulated_figure(name: str, found: SimulateResult, limits: Limits) -> tuple[float | None, str, str]:
    """What is there, which way it must lie, and what it was judged on."""
    way = WAY.get(name, "at most")
    if found.fits is False:
        return None, way, "nothing fits"
    if name == "min-goodput":
        return _end(found.goodput_requests_per_s, limits.judge, low=True), way, f"simulated, seed {limits.seed}"
    target = next(one for one in found.targets if one.name == TARGETS[name])
    return _end(target.have_s, limits.judge), way, f"p{limits.percentile:g}, seed {limits.seed}"


def simulation(question: Question, limits: Limits) -> SimulateResult:
    """The answer of `simulate`, with the limits as its targets.

    Raises:
        KvcalcError: no lengths, no load, a bound to judge by, or a goodput of no targets.
    """
    if limits.judge == "bound":
        raise KvcalcError('judge = "bound" simulates nothing', hint='judge by "value" or "high"')
    asked = question.workload
    if asked.input_len is None or asked.output_len is None:
        raise KvcalcError("a simulated limit needs the lengths of requests", hint="add input-len and output-len")
    if asked.concurrency is None and limits.request_rate is None:
        raise KvcalcError("a simulated limit needs a load", hint="add concurrency, or request-rate to the limits")
    targets = (limits.max_simulated_ttft, limits.max_simulated_tpot, limits.max_simulated_e2e)
    if targets == (None, None, None):
        raise KvcalcError("min-goodput: of which requests?", hint="add max-simulated-ttft, -tpot or -e2e beside it")
    rate = limits.request_rate
    settings = SimulateSettings(
        request_rate=rate,
        seed=limits.seed,
        percentile=limits.percentile,
        e2e_s=limits.max_simulated_e2e,
        equal_lengths=asked.equal_lengths,
    )
    asked = replace(
        asked, ttft_s=targets[0], tpot_s=targets[1], concurrency=None if rate is not None else asked.concurrency
    )
    question = question._replace(workload=asked)
    lengths = {"input_len": asked.input_len, "output_len": asked.output_len}
    return simulate(question, settings, workload_of(question, settings, lengths)).result


def _end(value: Value, judge: str, low: bool = False) -> float | None:
    """The end of a range that is judged: the worse one, or the value."""
    if not isinstance(value, Range):
        return value
    return value.value if judge == "value" else value.low if low else value.high
