"""Small random workloads over every option, for the event jump and its plain reference."""

import math
import random
from dataclasses import replace

from kvcalc.answers.simulate.machine import Simulated
from kvcalc.answers.simulate.workload import sampled
from kvcalc.simulator.drafts import Drafts
from kvcalc.simulator.requests import Requests
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.step_times import PromptTable, Reach, TabledTimes

SEQUENCES, ROWS = 64, 600


def table(rng, windows):
    """Step times of no machine: every entry of the table random."""
    base = [0.0, rng.uniform(0.5, 1)]
    for _ in range(SEQUENCES):
        base.append(base[-1] + rng.uniform(0, 0.02))
    slope = (0.0, *(rng.uniform(1e-4, 1e-3) for _ in range(SEQUENCES)))
    bends = tuple(tuple(rng.uniform(1e-4, 1e-3) for _ in range(SEQUENCES)) for _ in windows)
    rows, heads = [0.0], [0.0]
    for _ in range(ROWS):
        rows.append(rows[-1] + rng.uniform(0, 0.01))
        heads.append(heads[-1] + rng.uniform(0, 0.01))
    prompts = PromptTable(tuple(rows), tuple(heads), (Reach(math.inf, 1e-5, 1e-4),), 0.1)
    return TabledTimes(tuple(base), slope, windows, bends, prompts, prompts)


def chains(rng, prompt, id_tokens):
    """Ids of prompts that begin like others: some stop early, some go on in their own way."""
    fresh = iter(range(1000, 10**6))
    longest = max(1, max(prompt) // id_tokens)
    known = [[next(fresh) for _ in range(rng.randint(1, longest))] for _ in range(rng.randint(1, 4))]
    found = []
    for tokens in prompt:
        if rng.random() < 0.15:
            found.append(None)
            continue
        base = rng.choice(known)
        chain = base[: min(rng.randint(0, len(base)), tokens // id_tokens)]
        chain += [next(fresh) for _ in range(tokens // id_tokens - len(chain))]
        if rng.random() < 0.3 and chain:
            known.append(list(chain))
        found.append(tuple(chain))
    return found


def case(seed):
    """Settings, requests and step times."""
    rng = random.Random(seed)
    block, count = rng.choice([1, 2, 4, 8, 16]), rng.randint(1, 40)
    prompt = [rng.randint(1, rng.choice([5, 40, 100])) for _ in range(count)]
    output = [rng.randint(1, rng.choice([3, 20, 60])) for _ in range(count)]
    id_tokens = rng.choice([0, 0, 1, 2, 4, 8, 16, 32])
    needed = max(-(-(p + o - 1) // block) for p, o in zip(prompt, output, strict=True))
    extra = rng.choice([0, 0, 0, 2])
    settings = Settings(
        max_num_seqs=rng.choice([1, 2, 5, 16, 32]),
        max_num_batched_tokens=rng.choice([32, 40, 100, 500]),
        num_blocks=needed + extra + rng.choice([0, 1, 3, 10, 100]),
        block_size=block,
        lag=rng.choice([0, 1]),
        whole_prompt_fits=rng.random() < 0.7,
        watermark_blocks=rng.choice([0, 0, 0, 1]),
        prefill_schedule_interval=rng.choice([1, 1, 1, 3]),
        prefix_caching=rng.random() < 0.6,
        extra_blocks=extra,
    )
    rate, time, arrivals = rng.choice([0.01, 0.1, 1, 10, 1e9]), 0.0, []
    for _ in range(count):
        time += rng.expovariate(rate)
        arrivals.append(time)
    requests = Requests(
        arrivals,
        prompt,
        output,
        chains(rng, prompt, id_tokens) if id_tokens else None,
        id_tokens,
        clients=rng.randint(1, 20) if rng.random() < 0.3 else None,
        think_s=rng.choice([0.0, 1.5]),
    )
    return settings, requests, table(rng, rng.choice([(), (), (10,), (5, 30)]))


def single(seed):
    """The same with what has to be looked at step by step: priorities, a threshold, drafts."""
    settings, requests, times = case(seed)
    rng = random.Random(seed + 1)
    positions = tuple(rng.random() for _ in range(rng.randint(1, 4)))
    drafts = Drafts(positions, rng.choice(["sampled", "expected"]), rng.choice([0, len(positions)]), seed)
    settings = replace(
        settings,
        policy=rng.choice(["fcfs", "priority"]),
        long_prefill_token_threshold=rng.choice([0, 1, 7, 30]),
        drafts=rng.choice([None, drafts]),
    )
    if settings.drafts is not None:
        times = replace(times, rows_each=drafts.rows)
        settings = replace(settings, max_num_batched_tokens=settings.max_num_seqs * drafts.rows + 32)
    priority = [rng.randint(0, 2) for _ in requests.prompt]
    return settings, replace(requests, priority=rng.choice([None, priority])), times


POLICIES = ("vllm", "vllm", "unstopped", "sglang", "static", "reserved", "swap")
SINGLY = ("vllm", "unstopped", "sglang")  # that can be run step by step too


def everything(seed, policy=None):
    """Any policy or one, any options that it has, any requests, on any number of replicas."""
    rng = random.Random(seed + 2)
    policy = rng.choice(POLICIES) if policy is None else policy
    singly = policy in SINGLY and rng.random() < 0.35
    settings, requests, times = single(seed) if singly else case(seed)
    requests = related(rng, requests)
    settings = replace(settings, recv_interval=rng.choice([1, 1, 3]), **_more(rng, policy, settings))
    if policy in ("static", "reserved", "swap"):
        settings = replace(settings, prefix_caching=False)
    longest = max(map(sum, zip(requests.prompt, requests.output, strict=True)))
    ahead = settings.drafts.rows + settings.drafts.lookahead if settings.drafts else 1
    needed = -(-(longest - 2 + ahead) // settings.block_size) + settings.extra_blocks
    settings = replace(settings, num_blocks=max(settings.num_blocks, needed))
    replicas = rng.choice([1, 1, 1, 2, 3])
    pools = rng.randint(1, replicas - 1) if policy in SINGLY and replicas > 1 and rng.random() < 0.5 else 0
    reserved = policy == "reserved"
    if reserved:  # a region is a power of two
        longest = 1 << longest.bit_length()
        settings = replace(settings, num_blocks=-(-longest // settings.block_size) * rng.choice([1, 2, 5]))
    simulated = Simulated(
        settings,
        times,
        scheduler="static" if policy == "static" else "continuous",
        reservation=rng.choice(["max", "pow2", "oracle"]) if reserved else "none",
        prompts_first=policy == "sglang",
        replicas=replicas,
        prefill_replicas=pools,
        transfer_s=rng.choice([0.0, 0.01]) if pools else 0.0,
        lockstep=not pools and policy != "static" and rng.random() < 0.4,
        routing=rng.choice(["round-robin", "least-loaded", "prefix-aware"]),
        longest=longest if reserved else None,
        front_s=rng.choice([0.0, 0.03]),
    )
    return simulated, requests


def _more(rng, policy, settings):
    if policy == "unstopped":
        more = {"answers_fit": True, "whole_prompts": rng.random() < 0.5, "watermark_blocks": 0}
        return {**more, "long_prefill_token_threshold": 0}
    if policy == "swap":
        return {"preemption": "swap", "swap_blocks": rng.choice([0, 5, 60]), "swap_block_s": rng.choice([0.0, 0.03])}
    if policy == "sglang":
        more = {"extra_blocks": 0, "max_num_batched_tokens": rng.choice([8, 30, 500]), "watermark_blocks": 0}
        return {**more, "long_prefill_token_threshold": 0, "prefill_schedule_interval": 1}
    if policy == "vllm" and settings.drafts is not None:
        return {"dropped_tokens": rng.choice([0, settings.block_size])}
    return {}


def related(rng, requests):
    """Some of them turns of sessions, samples of one prompt, or with ids of other sizes than all the same."""
    way = rng.choice(["as they are", "as they are", "sessions", "samples"])
    if requests.clients is None and way == "samples":
        return sampled(requests, rng.randint(2, 3), 0)
    if way == "sessions":
        after = [i - rng.randint(1, min(i, 4)) if i and rng.random() < 0.5 else -1 for i in range(len(requests))]
        after = [one if after.index(one) == i else -1 for i, one in enumerate(after)]
        return replace(requests, after=after, pause_s=[rng.choice([0.0, 2.0]) for _ in after])
    return requests
