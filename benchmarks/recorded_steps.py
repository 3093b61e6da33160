"""Steps of a recorded run: what a full batch took to decode, and what a prompt took that nobody else's came beside.

**Full-batch decode step.** Seconds in which no prompt was computed and nobody came to run, while at both of their ends
requests waited: the batch held all it could. The step is the sequences that ran over the tokens that came; kvcalc is
asked for a step of as many sequences and cached tokens. The figure is the median over such seconds.

**Prompts.** Requests that were planned while others decoded, had their whole prompt in one step, and had it to
themselves: no other was planned between its planning and its first token. An engine that plans a step ahead has the
step under way to end first: kvcalc is asked for a step of those who decode and for the one that carries the prompt.
The figure is the median over such requests. The first of a run is left out: it finds kernels that were never called.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Step
from kvcalc.timing.passes import Pass

Case = dict[str, Any]


def recorded(case: Case, deployed: Deployed) -> dict[str, float | int | None]:
    """Both figures, kvcalc over measured less one, and on how many seconds and prompts they rest."""
    decode, prompts = full_batch(case, deployed), lone_prompts(case, deployed)
    return {
        "full_batch": median(decode) - 1 if decode else None,
        "seconds": len(decode),
        "prompts": median(prompts) - 1 if prompts else None,
        "lone_prompts": len(prompts),
    }


def full_batch(case: Case, deployed: Deployed) -> list[float]:
    """kvcalc over measured, of every second with a full batch and no prompt."""
    found = []
    for before, after in pairwise(case.get("every_second", ())):
        full = before["waiting"] and after["waiting"] and after["running"] <= before["running"]
        if not full or after["prompt_throughput"] or not after["gen_throughput"]:
            continue
        sequences = (before["running"] + after["running"]) / 2
        step = Step(decode=sequences, context=cached(case, before, after) / sequences)
        found.append(single(Pass(deployed.replica, step).time_s) * after["gen_throughput"] / sequences)
    return found


def cached(case: Case, before: Case, after: Case) -> float:
    """Cached tokens of all who ran in a second: as the engine reported, else from how far each request was."""
    blocks = case.get("num_gpu_blocks")
    if blocks:
        return float((before["kv_cache_pct"] + after["kv_cache_pct"]) / 200 * blocks * case["block_size"])
    middle = (before["t"] + after["t"]) / 2
    return sum(_reached(one, middle) for one in case["requests"])


def _reached(request: Case, moment: float) -> float:
    """Cached tokens of a request at a moment; none before its first token and after its last."""
    first, last = request["first_token_s"], request["last_token_s"]
    if not first <= moment < last:
        return 0.0
    return float(request["input_tokens"] + (moment - first) / (last - first) * request["output_tokens"])


def lone_prompts(case: Case, deployed: Deployed) -> list[float]:
    """kvcalc over measured, of every prompt that had a step to itself."""
    known = [one for one in case["requests"] if "scheduled_s" in one]
    requests, found = sorted(known, key=lambda one: float(one["scheduled_s"])), []
    budget = deployed.max_num_batched_tokens
    for place, one in enumerate(requests[1:], start=1):
        others = [other for other in requests if other is not one]
        running = [_reached(other, one["scheduled_s"]) for other in others]
        context = sum(running)
        sequences = sum(1 for tokens in running if tokens)
        tokens = one["input_tokens"] - shared(one, requests[:place], case["block_size"])
        if not sequences or sequences + tokens > budget or any(_overlap(one, other) for other in others):
            continue
        decode = Step(decode=sequences, context=context / sequences)
        own = decode._replace(prompts=1, tokens=tokens, start=one["input_tokens"] - tokens)
        ahead = deployed.replica.ahead * single(Pass(deployed.replica, decode).time_s)
        predicted = ahead + single(Pass(deployed.replica, own).time_s)
        found.append(predicted / (one["first_token_s"] - one["scheduled_s"]))
    return found


def _overlap(one: Case, other: Case) -> bool:
    """Whether both were between planning and first token at some time."""
    return bool(other["scheduled_s"] <= one["first_token_s"] and one["scheduled_s"] <= other["first_token_s"])


def shared(request: Case, earlier: Sequence[Case], block: int) -> int:
    """Tokens of its prompt that an earlier one had too, in whole blocks; the last token is always computed."""
    ids = request.get("hash_ids", ())
    most = max((_alike(ids, other.get("hash_ids", ())) for other in earlier), default=0)
    return min(most, (int(request["input_tokens"]) - 1) // block) * block


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """Equal ids at the beginning of both."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
