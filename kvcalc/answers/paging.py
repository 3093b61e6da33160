"""What paging costs: its attention kernel is slower, and the whole step by as much as attention is of it.

    Kwon et al. 2023 (PagedAttention), section 7.1: the kernel that follows a block table took 20 to 26 % longer than
    one that reads a contiguous cache.

A contiguous cache must be reserved for the longest sequence, so it holds fewer of them. The estimates' kernels are
measured on paged caches, so they have the cost in them already; the bound has not.
"""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import OperatingPoint
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Step
from kvcalc.results.paging import Paging
from kvcalc.timing.passes import Pass

SLOWDOWN = (0.20, 0.26)
KINDS = ("attention", "latent_attention")


def paging_of(deployed: Deployed, point: OperatingPoint) -> Paging | None:
    """None where nothing limits the batch, nothing fits, or nothing would be reserved."""
    longest, pool = deployed.max_model_len, deployed.pool_bytes
    paged = deployed.max_batch(point.context)
    if longest is None or not pool or not paged or point.batch is None or not deployed.profile.bytes_per_token_at_start:
        return None
    stored = deployed.profile.stored(longest) / (
        deployed.deployment.decode_context_parallel_size * deployed.deployment.pipeline_parallel_size
    )
    contiguous = int(pool // stored)
    low, high = SLOWDOWN
    context, replicas = point.mean_context, deployed.deployment.data_parallel_size

    def times(batch: int, slowdown: float) -> tuple[float, float]:
        return _steps(deployed, context, batch, slowdown)

    alone = replicas * contiguous / times(contiguous, high)[0] if contiguous else 0.0
    together = replicas * paged / times(paged, high)[1]
    effects = [slow / fast - 1 for fast, slow in (times(point.batch, low), times(point.batch, high))]
    return Paging(
        reserved_tokens=longest,
        contiguous_batch=contiguous,
        paged_batch=paged,
        kernel_slowdown_low=low,
        kernel_slowdown_high=high,
        step_slowdown_low=effects[0],
        step_slowdown_high=effects[1],
        contiguous_tokens_per_s=alone,
        paged_tokens_per_s=together,
        gain=together / alone if alone else None,
    )


def _steps(deployed: Deployed, context: int, batch: int, slowdown: float) -> tuple[float, float]:
    """Seconds of a step with a contiguous cache and with a paged one."""
    at = Pass(deployed.replica, Step(decode=batch, context=context))
    if at.estimate is None:
        reading = single(at.cache_bytes) / deployed.gpu.memory_bandwidth_bytes_per_s
        return single(at.bound_s), max(single(at.memory_time_s) + slowdown * reading, single(at.compute_time_s))
    kernels = sum(single(one.time_s) for one in at.operator_times if one.operator.kind in KINDS)
    return single(at.time_s) - kernels * slowdown / (1 + slowdown), single(at.time_s)
