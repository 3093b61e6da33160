"""TPOT, TTFT, tokens/s and cost of a deployment, once: every command, gate, table and plot takes them from here."""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import Clients, OperatingPoint, clients, operating_point
from kvcalc.answers.prompt_room import room_warnings
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Step
from kvcalc.formulas import step as formulas
from kvcalc.formulas.cost import usd_per_million_tokens
from kvcalc.results.base import Range
from kvcalc.results.performance import (
    Headline,
    Serving,
    StepBound,
    StepEstimate,
    TokenPrices,
    headline,
)
from kvcalc.specs.base import Assumption
from kvcalc.timing.estimate import Estimate
from kvcalc.timing.passes import Pass
from kvcalc.timing.prompts import Requests, alone_time, busy_prompt
from kvcalc.timing.serving import NO_DRAFTS, Steady, beyond_capacity, hastened, steady_state

ENDS = ("value", "low", "high")


class FirstToken(NamedTuple):
    """A prompt with nobody else in the engine: its pass, and when its first token is there."""

    prompt: Pass  # in one piece, whatever the budget of a step
    estimate: Range | None  # None with `--engine ideal`

    @property
    def bound_s(self) -> float:
        return float(self.prompt.bound_s)

    @property
    def time_s(self) -> float:
        """The estimate where there is one, else the bound."""
        return self.bound_s if self.estimate is None else self.estimate.value


class Performance:
    """A deployment at its operating point and, where lengths are given, with its clients.

    Args:
        deployed: a question put on its GPUs.
        batch: sequences of the step, in place of those of the operating point.
        point: the operating point, where it is not the question's own.
        concurrency: clients of a replica, in place of those that were asked for.
    """

    def __init__(
        self,
        deployed: Deployed,
        batch: int | None = None,
        concurrency: int | None = None,
        point: OperatingPoint | None = None,
    ) -> None:
        self.deployed = deployed
        point = operating_point(deployed) if point is None else point
        self.point: OperatingPoint = point if batch is None else point._replace(batch=batch)
        self._concurrency = concurrency

    @cached_property
    def step(self) -> Pass | None:
        """The decode step of the operating point; None where nothing fits and no batch was given."""
        if self.point.batch is None:
            return None
        step = Step(decode=self.point.batch, context=self.point.mean_context)
        return Pass(self.deployed.replica, step)

    def gain(self, batch: int, context: int) -> Estimate:
        return gain_of_drafts(self.deployed, batch, context)

    @property
    def step_gain(self) -> Estimate:
        """What drafts gain in the decode step."""
        return self.gain(self.point.batch or 1, self.point.mean_context)

    @property
    def sequences(self) -> int:
        """Of the whole deployment: every data-parallel replica runs the batch."""
        return (self.point.batch or 0) * self.deployed.deployment.data_parallel_size

    @cached_property
    def bound(self) -> StepBound | None:
        if self.step is None:
            return None
        time = single(self.step.bound_s)
        if self.deployed.deployment.num_speculative_tokens:
            from kvcalc.answers.speculate.serving import token_bound

            time = token_bound(self.deployed, self.step).token_s
        speed = formulas.throughput(self.sequences, time)
        return StepBound(
            step_time_s=time,
            output_tokens_per_s=speed,
            limit=self.step.limit,
            usd_per_million_output_tokens=usd_per_million(self.deployed, speed),
        )

    @cached_property
    def estimate(self) -> StepEstimate | None:
        if self.step is None or self.step.estimate is None:
            return None
        time = range_of(hastened(self.step.estimate, self.step_gain))
        speed = inverse(time, lambda seconds: formulas.throughput(self.sequences, seconds))
        return StepEstimate(step_time_s=time, output_tokens_per_s=speed,
                            usd_per_million_output_tokens=cost_range(self.deployed, speed))  # fmt: skip

    @cached_property
    def clients(self) -> Clients | None:
        return clients(self.deployed, self._concurrency)

    @cached_property
    def steady(self) -> Steady | None:
        """The closed loop of one replica, those that wait for a place included."""
        asked, together = self.clients, self.together
        if asked is None or together is None:
            return None
        return beyond_capacity(together, asked.requests, asked.concurrency, asked.running)

    @cached_property
    def together(self) -> Steady | None:
        """The closed loop of those that run at once."""
        asked = self.clients
        if asked is None:
            return None
        found = steady_state(self.deployed.replica, asked.requests, asked.running, self.loop_gain)
        # Who is alone has nobody else there, whichever way the loop counts the others.
        return found._replace(ttft=found.ttft_alone) if asked.concurrency == 1 else found

    @cached_property
    def loop_gain(self) -> Estimate:
        """What drafts gain in the closed loop."""
        asked = self.clients
        return NO_DRAFTS if asked is None else self.gain(asked.running, int(asked.requests.context))

    @cached_property
    def serving(self) -> Serving | None:
        """None without both lengths, with `--engine ideal`, or where nothing runs."""
        asked, found = self.clients, self.steady
        return None if asked is None or found is None else _serving(self.deployed, asked, found)

    def alone(self, input_len: int, hit: int | None = None) -> FirstToken:
        """The first token of a prompt that has the engine to itself; `hit` in place of the tokens that are cached."""
        cached = self.deployed.usable_hit(input_len) if hit is None else hit
        requests = Requests(input_len=input_len, output_len=1, prefix_hit=cached)
        replica = self.deployed.replica
        prompt = Pass(replica, Step(prompts=1, tokens=requests.computed, start=requests.prefix_hit))
        found = None if replica.ideal else range_of(alone_time(replica, requests))
        return FirstToken(prompt, found)

    @cached_property
    def headline(self) -> Headline | None:
        return headline(self.bound, self.estimate, self.serving)

    @property
    def warnings(self) -> tuple[str, ...]:
        doubt = self.deployed.engine.doubt(self.deployed.gpu)
        found = (() if doubt is None else (doubt,)) + self.point.warnings
        if self.clients is not None:
            found += (*self.clients.warnings, *room_warnings(self.deployed.question, self.clients.running))
        if not self.deployed.deployment.num_speculative_tokens:
            return found
        from kvcalc.answers.speculate.serving import drafts_without_times

        return (*found, *drafts_without_times(self.deployed))

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        found = (*self.point.assumptions, *(() if self.step is None else self.step.assumptions))
        if not self.deployed.deployment.num_speculative_tokens:
            return found
        from kvcalc.answers.speculate.serving import drafted

        batch = self.point.batch if self.clients is None else self.clients.running
        return (*found, *drafted(self.deployed, batch or 1, self.point.mean_context))


def gain_of_drafts(deployed: Deployed, batch: int, context: int) -> Estimate:
    """How many times faster than plain steps tokens come: drafts at `--acceptance`; once as fast without."""
    if not deployed.deployment.num_speculative_tokens:
        return NO_DRAFTS
    from kvcalc.answers.speculate.serving import gain

    return gain(deployed, batch, context)


def range_of(found: Estimate) -> Range:
    """The value and range of an estimate, for a report; of a single point."""
    return Range(value=float(found.value), low=float(found.low), high=float(found.high))


def inverse(time: Range, rate_of: Callable[[float], float]) -> Range:
    """A rate from a time: the low of the one gives the high of the other."""
    return Range(value=rate_of(time.value), low=rate_of(time.high), high=rate_of(time.low))


def usd_per_million(deployed: Deployed, tokens_per_s: float) -> float | None:
    """USD per million tokens at the price's median: the whole bill over these tokens; None without a price."""
    price = deployed.price
    if price is None:
        return None
    return float(usd_per_million_tokens(price.median_usd_per_hour, deployed.bill.gpus, tokens_per_s))


def cost_range(deployed: Deployed, speed: Range) -> Range | None:
    """The same over a range of tokens/s."""
    if deployed.price is None:
        return None
    return inverse(speed, lambda tokens_per_s: usd_per_million(deployed, tokens_per_s) or 0.0)


def _serving(deployed: Deployed, asked: Clients, found: Steady) -> Serving:
    requests, replicas = asked.requests, deployed.deployment.data_parallel_size
    rates = {
        end: float(replicas * asked.concurrency * requests.output_len / found.whole_s(requests.output_len, end))
        for end in ENDS
    }
    speed = Range(value=rates["value"], low=rates["high"], high=rates["low"])
    prompt = Step(prompts=1, tokens=requests.computed, start=requests.prefix_hit)
    return Serving(
        input_len=int(requests.input_len),
        output_len=int(requests.output_len),
        prefix_hit=int(requests.prefix_hit),
        concurrency=asked.concurrency,
        running=asked.running,
        waiting=asked.waiting,
        num_prompts=asked.num_prompts,
        ttft_alone_bound_s=float(Pass(deployed.replica, prompt).bound_s),
        ttft_alone_s=range_of(found.ttft_alone),
        ttft_s=range_of(found.ttft),
        tpot_s=None if found.tpot is None else range_of(found.tpot),
        output_tokens_per_s=speed,
        total_tokens_per_s=speed.value * (1 + requests.input_len / requests.output_len),
        output_tokens_per_s_per_gpu=speed.value / deployed.deployment.gpus,
        usd_per_million_output_tokens=cost_range(deployed, speed),
        usd_per_million_tokens=_token_prices(deployed, asked, found, speed.value),
    )


def _token_prices(deployed: Deployed, asked: Clients, found: Steady, tokens_per_s: float) -> TokenPrices | None:
    """The bill by kind of token, split by the time that prompts, their cached part and the rest take."""
    requests = asked.requests
    requests_per_s = tokens_per_s / requests.output_len
    replicas = deployed.deployment.data_parallel_size
    prompts = min(1.0, float(found.prompt_s) * requests_per_s / replicas)
    hit = requests.prefix_hit
    cached = 0.0
    if hit:
        # What attending over the cached tokens adds to computing the others.
        bare = float(busy_prompt(deployed.replica, requests._replace(input_len=requests.computed, prefix_hit=0)))
        cached = prompts * max(0.0, 1 - bare / float(found.prompt_s))
    computed = usd_per_million(deployed, requests_per_s * requests.computed)
    if computed is None:
        return None
    return TokenPrices(
        input=(prompts - cached) * computed,
        cached_input=cached * (usd_per_million(deployed, requests_per_s * hit) or 0.0) if hit else None,
        output=(1 - prompts) * (usd_per_million(deployed, tokens_per_s) or 0.0),
    )
