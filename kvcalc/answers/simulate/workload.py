"""The workload that is simulated: made traffic or a trace, and which of its rows no engine would take."""

from dataclasses import dataclass, replace
from typing import Any

from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.errors import KvcalcError
from kvcalc.simulator.requests import Chain, Requests
from kvcalc.simulator.traces.read import read_trace
from kvcalc.simulator.traffic import Length, Measured, Sharing, Traffic, rate_of
from kvcalc.specs.base import Assumption

DEFAULT_REQUESTS = 1000
WAVES = 10  # of a closed loop, as --num-prompts has it


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that run, and what became of the others."""

    requests: Requests
    given: int
    refused: int = 0
    sorted: int = 0  # rows that stood before an earlier one
    source: str = ""
    assumptions: tuple[Assumption, ...] = ()
    most: int | None = None  # tokens of a prompt, where lengths are drawn up to a limit

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt that may come."""
        return self.most or max(self.requests.prompt, default=0)

    def figures(self, replicas: int) -> dict[str, Any]:
        """What an answer says of it, whether anything runs or not."""
        clients = self.requests.clients
        return {
            "requests": self.given,
            "clients": None if clients is None else clients * replicas,
            "refused": self.refused,
            "unordered": self.sorted,
            "input_tokens": sum(self.requests.prompt),
            "output_tokens": sum(self.requests.output),
            "request_rate": rate_of(self.requests),
        }


def made(settings: SimulateSettings, prompt: Length | None, output: Length | None, clients: int | None) -> Traffic:
    """Traffic from flags.

    Raises:
        KvcalcError: no lengths, or no word on when requests come.
    """
    measured = None
    if settings.lengths_from is not None:
        if prompt is not None or output is not None:
            raise KvcalcError("--lengths-from and --isl or --osl contradict each other", hint="leave one of them out")
        measured = lengths_of(settings.lengths_from)
        prompt = output = Length(mean=1)
    if prompt is None or output is None:
        raise KvcalcError("how long are the requests?", hint="give --isl and --osl, --lengths-from, or a --trace")
    if settings.tool_s and not settings.tool_calls:
        raise KvcalcError("--tool-time: how many calls does a turn make?", hint="give --tool-calls")
    rate = settings.request_rate
    if clients is not None and rate is not None:
        raise KvcalcError("--request-rate and --concurrency contradict each other", hint="give one of the two")
    at_once = settings.arrivals == "at-once"
    if settings.find_rate and rate is None:
        rate = 1.0  # whatever it is: the times between arrivals are stretched
    if clients is None and rate is None and not at_once:
        raise KvcalcError("when do requests come?", hint="give --request-rate, --concurrency, or a --trace")
    return Traffic(
        count=settings.requests or (max(DEFAULT_REQUESTS, WAVES * clients) if clients else DEFAULT_REQUESTS),
        prompt=prompt,
        output=output,
        measured=measured,
        rate=rate,
        process=settings.arrivals,
        burstiness=settings.burstiness,
        ramp=settings.ramp,
        clients=clients,
        think_s=settings.think_s if settings.turns == 1 and not settings.tool_calls else 0.0,
        sharing=Sharing(
            settings.shared_prefix,
            settings.prefix_groups,
            settings.turns,
            settings.think_s,
            settings.tool_calls,
            settings.tool_s,
        ),
        urgent=settings.urgent,
        seed=settings.seed,
    )


def lengths_of(path: str) -> Measured:
    """The lengths of a trace's requests, those that an engine would take."""
    found = read_trace(path).requests
    pairs = [(p, o) for p, o in zip(found.prompt, found.output, strict=True) if p > 0 and o > 0]
    if not pairs:
        raise KvcalcError(f"--lengths-from: {path} has no requests with tokens", hint="is it the right file?")
    prompts, outputs = zip(*pairs, strict=True)
    return Measured(prompts, outputs)


def accepted(requests: Requests, longest: int | None, ordered: int = 0, source: str = "") -> Workload:
    """Without requests that have no tokens or more than `longest`; who waits for a refused one is refused too."""
    count = len(requests)
    kept = [i for i in range(count) if _runs(requests, i, longest)]
    if requests.after is not None:
        keep = set(kept)
        kept = []
        for i in range(count):
            if requests.after[i] >= 0 and requests.after[i] not in keep:
                keep.discard(i)
            if i in keep:
                kept.append(i)
    if not kept:
        raise KvcalcError(
            "no request can run: all are without tokens or too long", hint="raise --max-model-len, or look at the trace"
        )
    left = requests if len(kept) == count else _picked(requests, kept)
    return Workload(left, count, count - len(kept), ordered, source)


def sampled(requests: Requests, samples: int, seed: int) -> Requests:
    """Each request as several with the same prompt and answers of their own.

    Source: vllm/v1/engine/parallel_sampling.py: a request with n > 1 becomes n; the prefix cache shares the prompt. The
    lengths of further answers are those of other requests.
    """
    if samples == 1:
        return requests
    if requests.after is not None or requests.clients is not None:
        raise KvcalcError(
            "--samples needs requests that come at times of their own", hint="leave sessions and clients out"
        )
    import numpy as np

    count, rng = len(requests), np.random.default_rng([seed, 4])
    order = [i for i in range(count) for _ in range(samples)]
    others = rng.permutation(np.repeat(np.asarray(requests.output), samples - 1)).tolist()
    outputs = [others.pop() if place % samples else requests.output[i] for place, i in enumerate(order)]
    chains, sizes, id_tokens = _with_whole_prompts(requests)
    return replace(
        requests,
        arrival_s=[requests.arrival_s[i] for i in order],
        prompt=[requests.prompt[i] for i in order],
        output=outputs,
        chains=[chains[i] for i in order],
        priority=None if requests.priority is None else [requests.priority[i] for i in order],
        sizes=sizes,
        id_tokens=id_tokens,
    )


def _with_whole_prompts(requests: Requests) -> tuple[list[Chain], dict[int, int], int]:
    """Chains that name a prompt to its last token, so that its samples find it."""
    given = requests.chains or [None] * len(requests)
    if requests.id_tokens:
        used = {one for chain in given for one in chain or ()}
        sizes = dict.fromkeys(used, requests.id_tokens)
    else:
        sizes = dict(requests.sizes)
    fresh = max(sizes, default=0) + 1
    chains = []
    for i, chain in enumerate(given):
        covered = sum(sizes[one] for one in chain or ())
        if covered < requests.prompt[i]:
            sizes[fresh + i] = requests.prompt[i] - covered
            chain = (*(chain or ()), fresh + i)
        chains.append(chain or ())
    return chains, sizes, 0


def first_of(requests: Requests, count: int) -> Requests:
    """The first so many."""
    return requests if count >= len(requests) else _picked(requests, list(range(count)))


def every(requests: Requests, step: int) -> Requests:
    """Each so-manieth request: what one of so many replicas gets."""
    return _picked(requests, list(range(0, len(requests), step)))


def _runs(requests: Requests, i: int, longest: int | None) -> bool:
    prompt, output = requests.prompt[i], requests.output[i]
    return prompt > 0 and output > 0 and (longest is None or prompt + output <= longest)


def _picked(requests: Requests, kept: list[int]) -> Requests:
    def of(values: Any) -> Any:
        return None if values is None else [values[i] for i in kept]

    place = {old: new for new, old in enumerate(kept)}
    after = None if requests.after is None else [place.get(requests.after[i], -1) for i in kept]
    return replace(
        requests,
        arrival_s=of(requests.arrival_s) if len(requests.arrival_s) else requests.arrival_s,
        prompt=of(requests.prompt),
        output=of(requests.output),
        chains=of(requests.chains),
        after=after,
        pause_s=of(requests.pause_s),
        priority=of(requests.priority),
    )
