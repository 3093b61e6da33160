"""Step times and scheduler settings of a deployment: everything is asked of `Deployed` and its timer."""

from dataclasses import dataclass, replace
from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.prefill.cache import preemption, sent_bytes, transfers
from kvcalc.answers.prompt_room import whole_prompts
from kvcalc.answers.simulate.drafts import Drafting, drafting
from kvcalc.answers.simulate.policy import check_policy
from kvcalc.answers.simulate.settings import Reserving, Scheduling, SimulateSettings
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Step
from kvcalc.engines.capacity import Capacity
from kvcalc.errors import KvcalcError
from kvcalc.simulator.routing import Routing
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.step_times import ConstantTimes, PiecedTimes, RooflineTimes, TabledTimes
from kvcalc.simulator.table import tabled
from kvcalc.specs.base import Assumption
from kvcalc.specs.model import Attention, CompressedAttention, LatentAttention, ModelSpec
from kvcalc.timing.passes import Pass

Times = TabledTimes | PiecedTimes | ConstantTimes | RooflineTimes
MOST_SEQS = 1024  # where neither flag nor engine limits them
NO_END = 1 << 20  # tokens of a block of a cache that does not grow
FAR_BLOCKS = 1 << 16  # beyond every window
LESSONS_BLOCK = 16  # tokens, where the engine has no blocks
TYPICAL_BATCH, TYPICAL_CONTEXT = 32, 1024  # where the width of the range is asked for


@dataclass(frozen=True, slots=True)
class Simulated:
    """One replica: how it schedules, how long its steps take, and how far they may be off."""

    settings: Settings
    times: Times
    low: float = 1.0  # ends of the range, as shares of the times
    high: float = 1.0
    front_s: float = 0.0  # between a client and the engine
    assumptions: tuple[Assumption, ...] = ()
    scheduler: Scheduling = "continuous"
    reservation: Reserving = "none"
    prompts_first: bool = False  # as SGLang schedules
    replicas: int = 1
    prefill_replicas: int = 0  # of the replicas, these compute prompts and send them to the others
    transfer_s: float = 0.0  # of one token's cache
    lockstep: bool = False  # replicas share experts and step together
    routing: Routing = "least-loaded"
    longest: int | None = None  # tokens that are reserved, where it is the maximum

    @property
    def ranged(self) -> bool:
        return self.low != self.high


def simulated(deployed: Deployed, asked: SimulateSettings, mean_tokens: float) -> Simulated:
    """A replica of a deployment.

    Args:
        deployed: the question on its GPUs.
        asked: flags of the command.
        mean_tokens: of a request, prompt and answer; where states and windows are charged.
    """
    check_policy(deployed, asked)
    drafts = drafting(deployed)
    settings, assumptions = _with_drafts(drafts, asked, *_settings(deployed, asked, mean_tokens))
    policy = _policy(deployed, asked)
    if asked.step_time_s is not None:
        return Simulated(settings, ConstantTimes(asked.step_time_s), assumptions=assumptions, **policy)
    if not deployed.engine.TIMED:
        return Simulated(settings, roofline_of(deployed), assumptions=assumptions, **policy)
    table = tabled(
        (lambda step: Pass(deployed.replica, step).time_s) if drafts is None else drafts.time_s,
        settings.max_num_seqs,
        deployed.max_num_batched_tokens,
        windows_of(deployed.model),
        1 if settings.drafts is None else settings.drafts.rows,
    )
    pieced = settings.max_num_batched_tokens > deployed.max_num_batched_tokens
    point = Pass(deployed.replica, Step(decode=TYPICAL_BATCH, context=TYPICAL_CONTEXT)).estimate
    assert point is not None
    return Simulated(
        settings=settings,
        times=PiecedTimes(table, deployed.max_num_batched_tokens) if pieced else table,
        low=single(point.low / point.value),
        high=single(point.high / point.value),
        front_s=deployed.front_end_beside(deployed.question.workload.concurrency),
        assumptions=assumptions,
        **policy,
    )


def _with_drafts(
    drafts: Drafting | None, asked: SimulateSettings, settings: Settings, assumptions: tuple[Assumption, ...]
) -> tuple[Settings, tuple[Assumption, ...]]:
    """What drafts add to a scheduler's settings."""
    if drafts is None:
        return settings, assumptions
    dropped = settings.block_size if drafts.drops_a_block else 0
    settings = replace(settings, drafts=drafts.drafts(asked), dropped_tokens=dropped)
    return settings, (*assumptions, *drafts.rounds.drafter.assumptions)


def _policy(deployed: Deployed, asked: SimulateSettings) -> dict[str, Any]:
    """How requests are shared out, and by which rules."""
    together = deployed.deployment.shares_experts
    return {
        "scheduler": asked.scheduler,
        "reservation": asked.reservation,
        "replicas": deployed.deployment.data_parallel_size,
        "lockstep": together,
        "routing": asked.routing,
        **_pools(deployed, asked),
        "longest": deployed.deployment.max_model_len,
        "prompts_first": deployed.engine.TIMED and deployed.replica.machine.profile.prefill_first,
    }


def windows_of(model: ModelSpec) -> tuple[int, ...]:
    """Cached tokens at which the cost of attention bends."""
    found: set[int] = set()
    for group in model.groups:
        for mixer in group.mixers:
            if isinstance(mixer, (Attention, CompressedAttention)) and mixer.window:
                found.add(mixer.window)
            if isinstance(mixer, (Attention, LatentAttention)) and mixer.indexer:
                found.add(mixer.indexer.top_k)
            if isinstance(mixer, CompressedAttention) and mixer.indexer and mixer.ratio:
                found.add(mixer.indexer.top_k * mixer.ratio)
    return tuple(sorted(found))


def roofline_of(deployed: Deployed) -> RooflineTimes:
    """The lessons' bound as two lines, read off its own terms."""
    plain = Pass(deployed.replica, Step(decode=1, context=0))
    longer = Pass(deployed.replica, Step(decode=1, context=1000))
    bandwidth = deployed.gpu.memory_bandwidth_bytes_per_s
    long = Pass(deployed.replica, Step(prompts=1, tokens=2000))
    short = Pass(deployed.replica, Step(prompts=1, tokens=1000))
    row = float(plain.compute_time_s)
    return RooflineTimes(
        weights_s=float(plain.weight_bytes) / bandwidth,
        cached_s=float(longer.cache_bytes - plain.cache_bytes) / 1000 / bandwidth,
        row_s=row,
        attended_s=float(longer.compute_time_s - plain.compute_time_s) / 1000,
        pair_s=float(long.compute_time_s - 2 * short.compute_time_s) / 1_000_000,
    )


def _settings(
    deployed: Deployed, asked: SimulateSettings, mean_tokens: float
) -> tuple[Settings, tuple[Assumption, ...]]:
    held = deployed.capacity
    counted = deployed.deployment.num_gpu_blocks_override
    if held is None and counted is None:
        raise KvcalcError(
            deployed.budget.reason or "the pool is not predicted", hint="give --kv-memory, or --num-gpu-blocks-override"
        )
    blocks, size, extra, assumptions = _pool(held, counted, mean_tokens, deployed.deployment.block_size)
    if blocks < 1:
        raise KvcalcError("nothing fits: there is no room for a cache", hint="`kvcalc size` says where the memory goes")
    engine, version = deployed.engine, deployed.deployment.engine_version
    budget = max(deployed.max_num_batched_tokens, deployed.deployment.max_num_batched_tokens or engine.BATCHES_OF)
    sequences = min(deployed.max_num_seqs or MOST_SEQS, budget, *_held_elsewhere(held, mean_tokens))
    lag = asked.async_scheduling
    settings = Settings(
        max_num_seqs=sequences,
        max_num_batched_tokens=budget,
        num_blocks=blocks,
        block_size=size,
        lag=int(engine.plans_ahead(version) if lag is None else lag),
        whole_prompt_fits=engine.whole_prompt_fits(version),
        whole_prompts=whole_prompts(deployed.question, budget),
        answers_fit=engine.NEVER_EVICTS or engine.FAILS_WHEN_FULL,
        policy=asked.scheduling_policy,
        long_prefill_token_threshold=asked.long_prefill_token_threshold,
        watermark_blocks=int(asked.watermark * blocks),
        prefill_schedule_interval=asked.prefill_schedule_interval,
        recv_interval=deployed.deployment.scheduler_recv_interval or 1,
        prefix_caching=_caches(deployed, asked, extra),
        extra_blocks=extra,
    )
    settings = replace(settings, **_swap(deployed, asked, size))
    if engine.FAILS_WHEN_FULL:
        why = f"{engine.TITLE} would end them with an error; give each slot its own cells, or more"
        assumptions = (*assumptions, Assumption(name="requests without room", value="wait", why=why))
    return settings, assumptions


def _pools(deployed: Deployed, asked: SimulateSettings) -> dict[str, Any]:
    """Separate pools, and the seconds that one token's cache takes from one to the other."""
    count, replicas = asked.prefill_replicas, deployed.deployment.data_parallel_size
    if not count:
        return {}
    if count >= replicas:
        raise KvcalcError(
            f"--prefill-replicas {count} leaves none of {replicas} to decode", hint="raise --data-parallel-size"
        )
    found, _ = transfers(deployed, FAR_BLOCKS, 0.0)
    link = next((one for one in found if one.link in ("network", "roce")), found[0] if found else None)
    if link is None:
        raise KvcalcError("no link between the pools is known", hint="give --network-bandwidth")
    return {"prefill_replicas": count, "transfer_s": link.time_s / FAR_BLOCKS}


def _swap(deployed: Deployed, asked: SimulateSettings, size: int) -> dict[str, Any]:
    """The host's blocks, and the seconds that one takes one way."""
    if asked.preemption_mode == "recompute":
        return {}
    given = deployed.deployment.swap_space_bytes
    if not given:
        raise KvcalcError("--preemption-mode swap needs room on the host", hint="give --swap-space, in GiB per GPU")
    found, _ = preemption(deployed, size * 64, 1.0)
    if found.swap_one_way_s is None:
        raise KvcalcError("the GPU's link to the host is not known", hint="leave --preemption-mode out")
    block = sent_bytes(deployed, size * 64) / 64
    return {"preemption": "swap", "swap_blocks": int(given / block), "swap_block_s": found.swap_one_way_s / 64,
            "prefix_caching": False}  # fmt: skip


def _held_elsewhere(held: Capacity | None, mean_tokens: float) -> list[int]:
    """Sequences that the pools of windows and states hold, where they are apart."""
    pools = held.pools[1:] if held else ()
    return [most for pool in pools if (most := pool.max_batch(max(1, int(mean_tokens)))) is not None]


def _caches(deployed: Deployed, asked: SimulateSettings, extra: int) -> bool:
    """Prefix caching: as asked, else as vLLM has it: on, unless sequences have states. Samples share their prompt.

    Static batches and caches in one piece are of a time before it: there is none.
    """
    if asked.scheduler == "static" or asked.reservation != "none":
        return False
    given = deployed.deployment.enable_prefix_caching
    return (asked.samples > 1 or (deployed.engine.TIMED and not extra)) if given is None else given


def _pool(
    held: Capacity | None, counted: int | None, mean_tokens: float, block_size: int | None
) -> tuple[int, int, int, tuple[Assumption, ...]]:
    """Blocks, their tokens, and blocks that every sequence holds whatever its length.

    A block here is what a sequence takes for its next `block_size` tokens, in all layers that grow for ever. The rest
    of what it takes, states and full windows, it holds from its start.
    """
    if held is None or not held.pools:
        return counted or MOST_SEQS**2, block_size or LESSONS_BLOCK, 0, ()
    pool, length = held.pools[0], max(1, int(mean_tokens))
    size = held.block_size or block_size or LESSONS_BLOCK
    far = size * FAR_BLOCKS
    each = (pool.blocks(2 * far) - pool.blocks(far)) / FAR_BLOCKS
    usable = max(0, (pool.num_blocks if counted is None else counted) - pool.unusable_blocks)
    if not each:
        return usable // max(1, pool.blocks(length)), NO_END, 0, ()
    if counted is None or pool.block_bytes > 1:
        usable = int(usable / each)
    beside = (pool.blocks(length) - each * -(-length // size)) / each
    if beside < 0.5:
        return usable, size, 0, ()
    extra = round(beside)
    why = f"blocks of states and windows in a sequence of {length:,} tokens: held from its start"
    return usable, size, extra, (Assumption(name="blocks that do not grow", value=extra, why=why),)
