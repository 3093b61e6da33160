"""More requests than slots: offline throughput of a stated layout, and MLPerf's, whose layout is the submitter's."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from times.setting import Setting
from times.sums import Parts, decode_sums, named, prefill_sums, sums_of

from kvcalc.errors import KvcalcError
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.estimate import KernelSums, busy_prompt_time, step_time
from kvcalc.timing.serving import largest_batch, saturated_tokens_per_s

PROMPT_TOKENS = 8192  # of a step
MOST_SEQUENCES = 2048  # an engine's cap on sequences in flight where it is tuned for throughput


class Limit(NamedTuple):
    """Seconds to the first token and for each other, which 99 % of requests must keep."""

    ttft_s: float
    tpot_s: float


# Of MLPerf Inference, by benchmark and scenario: loadgen/mlperf.conf of github.com/mlcommons/inference; none offline.
LIMITS = {
    ("llama-2-70b", "Server"): Limit(2, 0.2), ("llama-2-70b", "Interactive"): Limit(0.45, 0.04),
    ("mixtral-8x7b", "Server"): Limit(2, 0.2),
    ("llama-3-8b", "Server"): Limit(2, 0.1), ("llama-3-8b", "Interactive"): Limit(0.5, 0.03),
    ("llama-3.1-405b", "Server"): Limit(6, 0.175), ("llama-3.1-405b", "Interactive"): Limit(4.5, 0.08),
    ("deepseek-r1", "Server"): Limit(2, 0.08), ("deepseek-r1", "Interactive"): Limit(1.5, 0.015),
}  # fmt: skip
MEAN_SHARE = 0.9  # of the limit of the slowest hundredth, what the mean may take
# As NVIDIA's configurations have it (closed/NVIDIA/configs of inference_results_v5.1): kvcache_free_gpu_mem_frac 0.95,
# batch_scheduler_policy max_util, which does not reserve answers that are not written yet, batches of 2,048 to 6,000,
# layers over up to four stages.
TUNED_POOL, TUNED_SEQUENCES = 0.95, 4096
SPLITS = tuple((tp, pp) for tp in (1, 2, 4, 8) for pp in (1, 2, 4) if tp * pp <= 8)
LEAST_LOAD = 0.1  # of the saturated throughput, however tight the limit


def prepare_saturated(setting: Setting, profile: Profile) -> dict[str, Any]:
    """The pool holds whole requests: schedulers that never evict reserve the answer's length from the start."""
    setting = replace(setting, busy=True)
    batch = max(1.0, min(MOST_SEQUENCES, setting.capacity(setting.length)))
    return _parts(setting, profile, batch, _shared_prefill(setting, profile))


def _shared_prefill(setting: Setting, profile: Profile) -> KernelSums:
    """Of one prompt: they share steps, and so the reading of weights. Without lengths they are another machine's."""
    together = max(1.0, PROMPT_TOKENS / max(setting.input_len, 1))
    return prefill_sums(setting, profile, together) / together if setting.output_len else KernelSums()


def _parts(setting: Setting, profile: Profile, batch: float, prefill: KernelSums) -> dict[str, Any]:
    decode = named("decode", decode_sums(setting, profile, batch))
    return decode | named("prefill", prefill) | {"batch": batch, "output_len": setting.output_len or 1.0}


def saturated(parts: Parts, profile: Profile) -> Any:
    step = step_time(sums_of("decode", parts), profile, parts["batch"])
    prefill = busy_prompt_time(sums_of("prefill", parts), profile)
    return saturated_tokens_per_s(step, prefill, parts["batch"], parts["output_len"])


def prepare_tuned(setting: Setting, profile: Profile) -> dict[str, Any]:
    """The split over GPUs with the highest throughput, at the largest batch that keeps the limit."""
    case = setting.case
    limit = LIMITS.get((case["model"], case["scenario"]))
    if limit is None and case["scenario"] != "Offline":
        raise KvcalcError(f"no limit of {case['model']} in scenario {case['scenario']}", hint="see loadgen/mlperf.conf")
    best: dict[str, Any] = {}
    for tp, pp in SPLITS:
        if case["n_gpus"] % (tp * pp):
            continue
        one = replace(setting.split(tp, pp), busy=True)
        most = min(TUNED_SEQUENCES, int(one.capacity(one.context, share=TUNED_POOL)))
        if most < 1:
            continue
        prefill = _shared_prefill(one, profile)
        if limit is not None:
            most = largest_batch(partial(_tuned_tpot, one, profile, prefill), MEAN_SHARE * limit.tpot_s, most) or 0
        if most < 1:
            continue
        parts = _parts(one, profile, most, prefill) | {
            "replicas": case["n_gpus"] / (tp * pp), "first": np.inf if limit is None else limit.ttft_s,
        }  # fmt: skip
        if not best or tuned(parts, profile) > tuned(best, profile):
            best = parts
    if not best:
        raise KvcalcError("no layout of up to 8 GPUs meets the limit", hint="state tp")
    return best


def _tuned_tpot(setting: Setting, profile: Profile, prefill: KernelSums, batch: float) -> float:
    return float(batch / saturated(_parts(setting, profile, batch, prefill), profile))


def tuned(parts: Parts, profile: Profile) -> Any:
    """Tokens/s of all replicas; of the saturated throughput, the share at which random arrivals keep the first limit.

        share = 1 - w · s / (T - pf)        s: what a replica takes for one request, T: the limit of the first token

    A queue of one server with random arrivals waits ρ · s / (2 (1 - ρ)) on average, and a hundredth of its customers
    some five times that: where T - pf is what they may wait, ρ is 1 less a multiple of s / (T - pf).
    """
    found = saturated(parts, profile)
    alone = busy_prompt_time(sums_of("prefill", parts), profile)
    left = np.maximum(parts["first"] - alone, LEAST_LOAD * parts["first"])
    share = 1 - profile.arrival_wait * parts["output_len"] / found / left
    return found * parts["replicas"] * np.maximum(LEAST_LOAD, share)
