"""What is answered where nothing runs: that it does not fit, why, and what was asked; no latencies."""

from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import operating_point
from kvcalc.answers.simulate.policy import check_policy
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.answers.simulate.workload import Workload
from kvcalc.answers.subject import subject
from kvcalc.answers.verdict import verdict
from kvcalc.results.simulate import Percentiles, SimulateResult

NONE = Percentiles(mean=None, p50=None, p90=None, p95=None, p99=None, max=None)
NOTHING: dict[str, Any] = dict.fromkeys(("ttft_s", "tpot_s", "itl_s", "e2e_s"), NONE) | dict.fromkeys((
    "duration_s", "output_tokens_per_s", "total_tokens_per_s", "requests_per_s", "goodput_requests_per_s", "slot_use",
    "block_use", "waste", "block_fill", "budget_use", "busy_share", "pool_full_s", "preemptions", "swapped_blocks",
    "recomputed_tokens", "prefix_hit_rate", "endless_hit_rate", "offload", "load", "capacity_requests_per_s",
    "queued_share", "verdict", "verdict_low", "verdict_high",
))  # fmt: skip


def unserved(deployed: Deployed, settings: SimulateSettings, workload: Workload) -> SimulateResult | None:
    """The answer where the engine does not start and the longest request has no room either; None: it runs.

    Raises:
        KvcalcError: a switch of the scheduler that would change nothing.
    """
    check_policy(deployed, settings)
    found, requests = verdict(deployed, operating_point(deployed)), workload.requests
    if found.fits is not False or _has_room(
        deployed, max(map(sum, zip(requests.prompt, requests.output, strict=True)))
    ):
        return None
    return SimulateResult(
        **subject(deployed, found),
        **NOTHING,
        engine=deployed.deployment.engine,
        **workload.figures(deployed.deployment.data_parallel_size),
        by_priority=(),
        targets=(),
        steps=0,
        max_num_seqs=0,
        num_blocks=0,
        block_size=0,
        timeline=(),
    )


def _has_room(deployed: Deployed, tokens: int) -> bool:
    """Whether one request of so many tokens has its cache; with no pool that is known, none has."""
    held = deployed.capacity
    if held is None:
        return deployed.deployment.num_gpu_blocks_override is not None
    fitting = held.max_batch(tokens)
    return fitting is None or fitting > 0
