"""Where a question is looked at: a step of a batch at a context, or a server with clients."""

from math import ceil
from typing import NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import runs_beyond
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption
from kvcalc.timing.prompts import Requests
from kvcalc.units import format_count

NO_LIMIT_CONTEXT = 8192  # for a model without a maximum, when nothing is said
USUAL_WAVES = 10  # requests of a benchmark, as multiples of its clients


class OperatingPoint(NamedTuple):
    """Where the step is evaluated. `context` is the longest that a sequence gets, `mean_context` its average."""

    batch: int | None  # None: nothing fits, or the pool is not predicted
    context: int
    mean_context: int
    beyond: str | None = None  # what the context is above: the model's maximum of 8,192
    doubts: tuple[str, ...] = ()  # what the model's config says and is not understood

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.beyond is None:
            return self.doubts
        return (*self.doubts, f"a context of {format_count(self.context)} is above {self.beyond}")

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return () if self.beyond is None else (runs_beyond("context", self.context, self.beyond),)


class Clients(NamedTuple):
    """Who a replica serves: so many clients, of whom some run at once and the others wait for a place."""

    requests: Requests
    concurrency: int
    running: int
    num_prompts: int
    idle: int = 0  # clients that were asked for, and for whom there is no request

    @property
    def waiting(self) -> int:
        return self.concurrency - self.running

    @property
    def warnings(self) -> tuple[str, ...]:
        asked, running = format_count(self.concurrency), format_count(self.running)
        found = []
        if self.idle:
            given = f"--num-prompts {self.num_prompts} is below --concurrency {self.concurrency + self.idle}"
            found.append(f"{given}: {asked} clients have a request each, the others none")
        if self.waiting:
            said = f"of {asked} clients a replica {running} run at once"
            found.append(f"{said}: the others wait, and their wait is in the TTFT")
        return tuple(found)


def operating_point(deployed: Deployed) -> OperatingPoint:
    """From --context, --batch and the lengths.

    The batch is what was asked for, else as many whole sequences as fit and are admitted.
    """
    asked = deployed.question.workload
    mean = None
    context = asked.context
    if context is None and asked.input_len is not None and asked.output_len is not None:
        context = asked.input_len + asked.output_len
        mean = asked.input_len + asked.output_len // 2
    if context is None:
        context = deployed.max_model_len or NO_LIMIT_CONTEXT
    batch = asked.batch or _most(deployed, context)
    return OperatingPoint(batch, context, mean or context, deployed.beyond(context), deployed.model.warnings)


def _most(deployed: Deployed, context: int) -> int | None:
    """Sequences of this context that fit and are admitted; None: none, no limit, or the pool is not predicted."""
    fitting = [one for one in (deployed.max_batch(context), deployed.max_num_seqs) if one is not None]
    return (min(fitting) or None) if fitting and deployed.capacity is not None else None


def clients(deployed: Deployed, concurrency: int | None = None) -> Clients | None:
    """The clients of one replica; None without both lengths, with `--engine ideal`, or where nothing runs.

    Args:
        deployed: a question put on its GPUs.
        concurrency: in place of the one that was asked for, as a sweep needs it.
    """
    asked, lengths = deployed.question.workload, deployed.lengths
    if lengths is None:
        return None
    wanted = concurrency or asked.concurrency
    room = running_at_once(deployed, *lengths)
    if room is None:
        room = wanted or 1
    if room < 1:
        return None
    number = wanted or room
    prompts = asked.num_prompts or USUAL_WAVES * number
    idle = max(0, number - prompts)
    number -= idle
    running = min(number, room)
    input_len, output_len = lengths
    requests = Requests(
        input_len=input_len,
        output_len=output_len,
        prefix_hit=deployed.usable_hit(input_len),
        waves=prompts / running,
        equal=asked.equal_lengths,
    )
    return Clients(requests, number, running, prompts, idle)


def running_at_once(deployed: Deployed, input_len: int, output_len: int) -> int | None:
    """Requests that a replica runs together, of no more than there are; None: nothing limits them, or no known pool.

    An engine that evicts sequences fills its pool to their mean length; one that never does keeps each its whole
    length from the start.
    """
    length = input_len + output_len if deployed.never_evicts else ceil(input_len + output_len / 2)
    limits = (deployed.max_batch(length), deployed.max_num_seqs, deployed.question.workload.num_prompts)
    return min((one for one in limits if one is not None), default=None)


def longest_point(deployed: Deployed, point: OperatingPoint) -> tuple[OperatingPoint, tuple[Assumption, ...]]:
    """Where not one sequence of the context fits: one of the longest that does, as a listed assumption."""
    longest = deployed.longest() if point.batch is None and deployed.question.workload.context is None else None
    if not longest:
        return point, ()
    why = f"one sequence of {format_count(point.context)} has no room: the step is of one at the longest that fits"
    return point._replace(batch=1, mean_context=longest), (Assumption(name="context", value=longest, why=why),)


def at_least_one(point: OperatingPoint) -> tuple[OperatingPoint, tuple[Assumption, ...]]:
    """A point to answer at even where nothing fits: one sequence then, as a listed assumption."""
    if point.batch is not None:
        return point, ()
    return point._replace(batch=1), (Assumption(name="batch", value=1, why="nothing fits: one sequence, if it did"),)


def require_within(deployed: Deployed, point: OperatingPoint) -> None:
    """A gate refuses a context above the model's maximum.

    Raises:
        KvcalcError: it is above.
    """
    if point.beyond is not None:
        raise KvcalcError(
            f"a context of {format_count(point.context)} is above {point.beyond}",
            hint="lower context, or raise max-model-len where the model allows it",
        )
