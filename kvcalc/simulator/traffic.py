"""Traffic that is made: when requests arrive and how long they are, from a seed.

Each quantity has a stream of its own, so that one may change without the others: answers' lengths come from
`default_rng(seed)`, prompts' from `default_rng([seed, 1])`, arrivals from `[seed, 2]`, prefixes from `[seed, 3]`,
priorities from `[seed, 5]`.
"""

from dataclasses import dataclass
from math import log
from typing import Any, Literal

from kvcalc.errors import KvcalcError
from kvcalc.simulator.requests import Chain, Requests

Process = Literal["poisson", "gamma", "constant", "at-once"]


@dataclass(frozen=True, slots=True)
class Length:
    """Tokens: fixed, uniform from `low` to `high` (both included), or lognormal around a mean."""

    mean: float
    low: int | None = None
    high: int | None = None
    sigma: float | None = None  # of the logarithm

    def drawn(self, rng: Any, count: int) -> list[int]:
        """So many lengths, each at least one token."""
        import numpy as np

        if self.low is not None and self.high is not None:
            return rng.integers(self.low, self.high + 1, count).tolist()  # type: ignore[no-any-return]
        if self.sigma is not None:
            drawn = rng.lognormal(log(self.mean) - self.sigma**2 / 2, self.sigma, count)
            return np.maximum(1, np.rint(drawn)).astype(int).tolist()  # type: ignore[no-any-return]
        return [round(self.mean)] * count


@dataclass(frozen=True, slots=True)
class Measured:
    """Lengths as requests had them: prompts and answers are drawn together, each as often as any other."""

    prompts: tuple[int, ...]
    outputs: tuple[int, ...]

    def drawn(self, rng: Any, count: int) -> tuple[list[int], list[int]]:
        """So many pairs."""
        places = rng.integers(0, len(self.prompts), count).tolist()
        return [self.prompts[place] for place in places], [self.outputs[place] for place in places]


@dataclass(frozen=True, slots=True)
class Sharing:
    """What prompts have in common: system prompts, and turns that repeat the conversation so far."""

    prefix: int = 0  # tokens of a system prompt
    groups: int = 1  # system prompts, each as popular as the others
    turns: int = 1  # requests of a session, each after the answer to the last
    pause_s: float = 0.0  # between an answer and the next turn: reading, typing
    tool_calls: int = 0  # requests of one turn before its last, each after a tool has answered the one before
    tool_s: float = 0.0  # that a tool takes


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests at a rate, or of clients that wait for their answers."""

    count: int
    prompt: Length
    output: Length
    measured: Measured | None = None  # in place of both
    rate: float | None = None  # requests (of sessions: first turns) per second
    process: Process = "poisson"
    burstiness: float = 1.0  # gamma: the square of the coefficient of variation; above 1 in bursts
    ramp: float = 1.0  # the rate at the end, in rates at the beginning
    clients: int | None = None
    think_s: float = 0.0
    sharing: Sharing = Sharing()
    urgent: float = 0.0  # share of the requests with priority 0; the others have 1
    seed: int = 0


def requests_of(traffic: Traffic) -> Requests:
    """The workload that this traffic is.

    Raises:
        KvcalcError: neither a rate nor clients, where requests do not come all at once.
    """
    import numpy as np

    seed, count, sharing = traffic.seed, traffic.count, traffic.sharing
    if traffic.measured is not None:
        prompts, outputs = traffic.measured.drawn(np.random.default_rng([seed, 1]), count)
    else:
        outputs = traffic.output.drawn(np.random.default_rng(seed), count)
        prompts = traffic.prompt.drawn(np.random.default_rng([seed, 1]), count)
    if sharing.turns > 1 or sharing.tool_calls:
        return _sessions(traffic, prompts, outputs)
    chains, sizes = None, {}
    if sharing.prefix:
        drawn = np.random.default_rng([seed, 3]).integers(0, sharing.groups, count).tolist()
        known: list[Chain] = [(group,) for group in range(sharing.groups)]
        chains, sizes = [known[group] for group in drawn], dict.fromkeys(range(sharing.groups), sharing.prefix)
        prompts = [sharing.prefix + tokens for tokens in prompts]
    return Requests(
        arrival_s=[] if traffic.clients is not None else _arrivals(traffic, count),
        prompt=prompts,
        output=outputs,
        chains=chains,
        sizes=sizes,
        clients=traffic.clients,
        think_s=traffic.think_s,
        priority=_priorities(traffic),
    )


def _priorities(traffic: Traffic) -> list[int] | None:
    import numpy as np

    if not traffic.urgent:
        return None
    drawn = np.random.default_rng([traffic.seed, 5]).random(traffic.count)
    return (drawn >= traffic.urgent).astype(int).tolist()  # type: ignore[no-any-return]


def _arrivals(traffic: Traffic, count: int) -> list[float]:
    import numpy as np

    if traffic.process == "at-once":
        return [0.0] * count
    rate = traffic.rate
    if rate is None:
        raise KvcalcError("no rate of requests", hint="give --request-rate, --concurrency or --trace")
    rng = np.random.default_rng([traffic.seed, 2])
    if traffic.process == "constant":
        gaps = np.ones(count)
        gaps[0] = 0
    elif traffic.process == "gamma":
        gaps = rng.gamma(1 / traffic.burstiness, traffic.burstiness, count)
    else:
        gaps = rng.exponential(1.0, count)
    times = np.cumsum(gaps) / rate
    return (times if traffic.ramp == 1 else _ramped(times, traffic.ramp)).tolist()  # type: ignore[no-any-return]


def _ramped(times: Any, ramp: float) -> Any:
    """Times at a rate that grows in a straight line from 1 to `ramp` times, the whole as many a second on average."""
    import numpy as np

    span = float(times[-1])
    # requests up to time t: r0 (t + (ramp - 1) t² / 2T), r0 so that the mean rate is kept
    start, slope = 2 / (1 + ramp), (2 / (1 + ramp)) * (ramp - 1) / span
    return (np.sqrt(start**2 + 2 * slope * times) - start) / slope


def _sessions(traffic: Traffic, prompts: list[int], outputs: list[int]) -> Requests:
    """Turns of conversations: each prompt is all that was said before and something new."""
    import numpy as np

    sharing = traffic.sharing
    each = 1 + sharing.tool_calls
    turns = sharing.turns * each  # requests of a session
    sessions = -(-traffic.count // turns)
    groups = np.random.default_rng([traffic.seed, 3]).integers(0, max(1, sharing.groups), sessions).tolist()
    starts = _arrivals(traffic, sessions) if traffic.clients is None else [0.0] * sessions
    sizes = dict.fromkeys(range(sharing.groups), sharing.prefix) if sharing.prefix else {}
    made = Requests([], [], [], [], 0, sizes, traffic.clients, traffic.think_s, [], [], _priorities(traffic))
    said: list[Chain] = [(group,) if sharing.prefix else () for group in groups]
    length = [sharing.prefix] * sessions
    name = sharing.groups
    for i in range(traffic.count):
        turn, session = divmod(i, sessions)
        for tokens in (prompts[i], outputs[i]):
            sizes[name] = tokens
            said[session] = (*said[session], name)
            name += 1
        made.arrival_s.append(starts[session])  # type: ignore[attr-defined]
        made.prompt.append(length[session] + prompts[i])  # type: ignore[attr-defined]
        made.output.append(outputs[i])  # type: ignore[attr-defined]
        made.chains.append(said[session])  # type: ignore[union-attr]
        made.after.append(-1 if turn == 0 else i - sessions)  # type: ignore[union-attr]
        made.pause_s.append(sharing.tool_s if turn % each else sharing.pause_s)  # type: ignore[union-attr]
        length[session] += prompts[i] + outputs[i]
    return made


def rate_of(requests: Requests) -> float | None:
    """Requests per second over the span of their arrivals; None: they come all at once, or when others are answered."""
    if requests.clients is not None or len(requests) < 2:
        return None
    times = list(requests.arrival_s)
    span = max(times) - min(times)
    return (len(times) - 1) / span if span > 0 else None
