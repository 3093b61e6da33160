"""One point: the decode step of a batch at a context, its bounds, its estimate, and what a token then costs.

A batch may be a NumPy array: then every quantity of the point is one, and a whole curve is computed at once.
"""

from typing import Literal, NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.counting.arrays import Quantity, greatest
from kvcalc.counting.operators.passes import decode_step
from kvcalc.counting.work import Operator
from kvcalc.formulas import step
from kvcalc.formulas.cost import usd_per_million_tokens
from kvcalc.results.base import Range
from kvcalc.results.size import Bound, Estimate
from kvcalc.specs.base import Assumption
from kvcalc.timing.estimate import Estimate as StepEstimate
from kvcalc.timing.estimate import estimate_step
from kvcalc.timing.roofline import bound as roofline
from kvcalc.timing.roofline import operator_bound_total


class Point(NamedTuple):
    """Bytes, FLOPs and times are of one GPU."""

    deployed: Deployed
    context: int
    batch: Quantity  # of one replica
    weight_bytes: Quantity
    cache_bytes: Quantity
    flops: Quantity
    attention_flops: Quantity
    memory_time_s: Quantity
    compute_time_s: Quantity
    operator_bound_s: Quantity
    estimate_s: StepEstimate | None  # None with `--engine ideal`, where nothing but the bound is meant

    @property
    def bytes(self) -> Quantity:
        return self.weight_bytes + self.cache_bytes

    @property
    def bound_s(self) -> Quantity:
        return greatest(self.memory_time_s, self.compute_time_s)

    @property
    def limit(self) -> Literal["memory", "compute"]:
        return "memory" if self.memory_time_s >= self.compute_time_s else "compute"

    @property
    def best_step_s(self) -> Quantity:
        """The estimate's value where there is one, else the bound."""
        return self.bound_s if self.estimate_s is None else self.estimate_s.value

    @property
    def sequences(self) -> Quantity:
        """Of the whole deployment: every data-parallel replica runs the batch."""
        return self.batch * self.deployed.deployment.data_parallel_size

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return () if self.estimate_s is None else self.estimate_s.assumptions

    def usd_per_million_tokens(self, step_time_s: Quantity) -> Quantity | None:
        return cost_of(self.deployed, self.batch, step_time_s)

    def bound(self) -> Bound:
        """For a report; of a single point."""
        return Bound(
            step_time_s=self.bound_s,
            output_tokens_per_s=step.throughput(self.sequences, self.bound_s),
            limit=self.limit,
            usd_per_million_output_tokens=self.usd_per_million_tokens(self.bound_s),
        )

    def estimate(self) -> Estimate | None:
        """For a report; of a single point."""
        return None if self.estimate_s is None else estimate_of(self, range_of(self.estimate_s))


def cost_of(deployed: Deployed, batch: Quantity, step_time_s: Quantity) -> Quantity | None:
    """USD per million output tokens of `batch` sequences a replica, at the price's median; None without a price."""
    price, deployment = deployed.price, deployed.deployment
    if price is None:
        return None
    speed = step.throughput(batch * deployment.data_parallel_size, step_time_s)
    return usd_per_million_tokens(price.median_usd_per_hour, deployed.bill.gpus, speed)


def step_time_of(deployed: Deployed, context: int, batch: Quantity) -> Quantity:
    """Seconds of the step alone: `point_of(...).best_step_s` without the bounds beside it."""
    if deployed.deployment.engine == "ideal":
        return point_of(deployed, context, batch).bound_s
    return estimate_step(operators_of(deployed, context, batch), deployed.machine, sequences=batch).value


def range_of(found: StepEstimate) -> Range:
    """The value and range of an estimate, for a report."""
    return Range(value=found.value, low=found.low, high=found.high)


def estimate_of(point: Point, time: Range) -> Estimate:
    """Throughput and cost from the time of a step: its low gives the high throughput."""
    cost, least, most = map(point.usd_per_million_tokens, (time.value, time.low, time.high))
    return Estimate(
        step_time_s=time,
        output_tokens_per_s=Range(
            value=step.throughput(point.sequences, time.value),
            low=step.throughput(point.sequences, time.high),
            high=step.throughput(point.sequences, time.low),
        ),
        usd_per_million_output_tokens=None
        if cost is None or least is None or most is None
        else Range(value=cost, low=least, high=most),
    )


def operators_of(deployed: Deployed, context: int, batch: Quantity) -> tuple[Operator, ...]:
    """The operators of the step on one GPU."""
    return decode_step(
        deployed.model,
        deployed.deployment.layout,
        batch=batch,
        context=context,
        cache_dtype=deployed.cache_dtype,
        state_dtype=deployed.state_dtype,
    )


def point_of(deployed: Deployed, context: int, batch: Quantity) -> Point:
    """The decode step of `batch` sequences of `context` tokens on each replica.

    With `--engine ideal` the bound is the lessons': every parameter is read. With a real engine it counts what the
    operators read.
    """
    operators = operators_of(deployed, context, batch)
    operator_bound_s = operator_bound_total(operators, deployed.gpu, deployed.gpus_per_node)
    if deployed.deployment.engine == "ideal":
        from kvcalc.answers.lesson import lesson_terms

        terms = lesson_terms(deployed.model, deployed.profile, deployed.deployment.layout, batch, context)
        moved = terms["weight_bytes"] + terms["cache_bytes"]
        memory = step.memory_time(moved, deployed.gpu.memory_bandwidth_bytes_per_s)
        compute = step.compute_time(terms["flops"], deployed.peak_flops)
        return Point(deployed, context, batch, **terms, memory_time_s=memory, compute_time_s=compute,
                     operator_bound_s=operator_bound_s, estimate_s=None)  # fmt: skip
    found = roofline(operators, deployed.gpu)
    return Point(
        deployed=deployed,
        context=context,
        batch=batch,
        weight_bytes=found.weight_bytes,
        cache_bytes=found.cache_bytes,
        flops=found.flops,
        attention_flops=sum(one.count * one.flops for one in operators if one.kind in ATTENTION),
        memory_time_s=found.memory_time_s,
        compute_time_s=found.compute_time_s,
        operator_bound_s=operator_bound_s,
        estimate_s=estimate_step(operators, deployed.machine, sequences=batch),
    )


ATTENTION = ("attention", "latent_attention", "state")
