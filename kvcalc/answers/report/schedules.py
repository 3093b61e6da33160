"""Static against continuous batching: the same requests through both schedulers of `simulate`, slot by slot."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import Question
from kvcalc.answers.simulate.ask import workload_of
from kvcalc.answers.simulate.figures import Latencies
from kvcalc.answers.simulate.machine import Simulated, simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.answers.simulate.settings import Scheduling, SimulateSettings
from kvcalc.results.report import Schedule, Schedules, Segment
from kvcalc.specs.base import replace
from kvcalc.specs.load import Workload

SLOTS, REQUESTS, INPUT_LEN = 6, 16, 256
SEEDS = (0, 1, 2, 3)
LONGEST = (32, 128, 512)  # output tokens; the shortest answer has a sixteenth
Kind = Literal["prefill", "decode", "idle"]
SCHEDULERS: tuple[Scheduling, ...] = ("static", "continuous")


def flags() -> dict[str, Any]:
    """What `simulate` is given beside the deployment and the seed."""
    return {"max_num_seqs": str(SLOTS), "requests": str(REQUESTS), "arrivals": "at-once", "input_len": str(INPUT_LEN),
            "async_scheduling": False}  # fmt: skip


def output_len(longest: int) -> str:
    """The range of lengths, as `--osl` takes it."""
    return f"{longest // 16}-{longest}"


def schedules(question: Question) -> Schedules:
    """Every frame: seeds, longest answers and both schedulers; of one replica.

    Raises:
        KvcalcError: the deployment cannot be simulated.
    """
    deployment = replace(question.deployment, max_num_seqs=SLOTS)
    asked = question._replace(deployment=deployment, workload=Workload())
    usual = SimulateSettings(requests=REQUESTS, arrivals="at-once", async_scheduling=False)
    replica = simulated(Deployed(asked), usual, INPUT_LEN + LONGEST[-1])
    alone = dataclasses.replace(replica.settings, prefix_caching=False)
    replica = dataclasses.replace(replica, settings=alone, replicas=1, lockstep=False)
    found: list[Schedule] = []
    segments: list[Segment] = []
    for seed in SEEDS:
        for longest in LONGEST:
            workload = workload_of(
                asked, replace(usual, seed=seed), {"input_len": str(INPUT_LEN), "output_len": output_len(longest)}
            )
            for scheduler in SCHEDULERS:
                own = dataclasses.replace(replica, scheduler=scheduler)
                one = Latencies(run(own, workload.requests), workload.requests)
                found.append(_schedule(seed, longest, scheduler, own, one))
                segments += _segments(found[-1], one, replica.front_s)
    return Schedules(
        slots=SLOTS, requests=REQUESTS, input_len=INPUT_LEN, schedules=tuple(found), segments=tuple(segments)
    )


def _schedule(seed: int, longest: int, scheduler: Scheduling, replica: Simulated, one: Latencies) -> Schedule:
    use, slots = one.outcome.use, replica.settings.max_num_seqs
    return Schedule(
        seed=seed,
        longest=longest,
        scheduler=scheduler,
        duration_s=one.span_s,
        output_tokens_per_s=sum(one.requests.output) / one.span_s,
        slot_use=use.slots_s / (slots * one.span_s),
        steps=use.steps,
    )


def _segments(of: Schedule, one: Latencies, front_s: float) -> Iterator[Segment]:
    """What each slot does from the first request to the last answer."""
    seen, end_s = one.outcome.seen, one.outcome.seen.sent_s[0] + one.span_s
    order = sorted(range(len(one.requests)), key=lambda i: (seen.first_s[i], i))
    begins = _begins(order, [time + front_s for time in seen.sent_s], seen.last_s, of.scheduler)
    free = [seen.sent_s[0]] * SLOTS

    def segment(slot: int, request: int | None, kind: Kind, start_s: float, stop_s: float) -> Segment:
        return Segment(seed=of.seed, longest=of.longest, scheduler=of.scheduler, slot=slot + 1, request=request,
                       kind=kind, start_s=start_s, end_s=stop_s)  # fmt: skip

    for request in order:
        begin, first, last = begins[request], seen.first_s[request], seen.last_s[request]
        slot = min(range(SLOTS), key=lambda number: (free[number] > begin, free[number], number))
        if begin > free[slot]:
            yield segment(slot, None, "idle", free[slot], begin)
        yield segment(slot, request + 1, "prefill", begin, first)
        if last > first:
            yield segment(slot, request + 1, "decode", first, last)
        free[slot] = last
    for slot, time in enumerate(free):
        if time < end_s:
            yield segment(slot, None, "idle", time, end_s)


def _begins(order: Sequence[int], there_s: list[float], last_s: Sequence[float], scheduler: str) -> list[float]:
    """When each request has its slot: all wait from the start, so as soon as one is free, or the whole batch ended."""
    begins = list(there_s)
    if scheduler == "static":
        for start in range(SLOTS, len(order), SLOTS):
            ended = max(last_s[request] for request in order[:start])
            for request in order[start : start + SLOTS]:
                begins[request] = ended
        return begins
    ends = sorted(last_s)
    for place, request in enumerate(order[SLOTS:]):
        begins[request] = ends[place]
    return begins
