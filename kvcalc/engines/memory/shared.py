"""Memory that a GPU shares with its host: what the system keeps of it, and how that grows.

Source: `shared.toml`, each row with its evidence; what systems leave to programs: the GPU's spec, `memory_settings`
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc.engines.memory.budget import NOTHING, ByteRange, MemoryBudget
from kvcalc.engines.memory.data import gib_range
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import format_gib


@cache
def shared_constants() -> dict[str, Any]:
    """Everything that shared.toml says."""
    with open(Path(__file__).with_name("shared.toml"), "rb") as file:
        return tomllib.load(file)


def system_use(gpu: GpuSpec) -> ByteRange:
    """What the system keeps of the memory that programs are told of, bytes; nothing on a card with its own.

    Where a program is told of less than the nameplate, the system lives in the rest.

    Unit: bytes
    """
    row = shared_constants()["system"]
    if not gpu.unified_memory or gpu.usable_memory_bytes < row["whole_above"] * gpu.memory_bytes:
        return NOTHING
    return gib_range(row)


def growth(ranks: int) -> ByteRange:
    """What is used more of the machine when an engine has started than before, beside what PyTorch holds: bytes.

    Unit: bytes
    """
    return gib_range(shared_constants()["growth"]["one" if ranks == 1 else "more"])


def beside_the_host(found: MemoryBudget, gpu: GpuSpec, share_of_all: bool) -> MemoryBudget:
    """A budget where the GPU shares the host's memory: what the system keeps of it.

    Args:
        found: as on a card with its own memory.
        gpu: unified memory.
        share_of_all: the engine asks for a share of the whole; the others take what is free.

    Weights that need more than a program is told of may still fit where the owner can raise that: only then the
    pool's high end is with the most that can be set.
    """
    kept = system_use(gpu)
    taken = NOTHING if share_of_all else kept  # a share of the whole leaves the system its own
    pool = found.pool
    if pool is not None:
        pool = ByteRange(
            low=pool.low - taken.high - less_elsewhere(gpu), value=pool.value - taken.value, high=pool.high - taken.low
        )
        most = max((setting.usable_memory_bytes for setting in gpu.memory_settings), default=0)
        raised = int(max(0, most - gpu.usable_memory_bytes) * found.requested / found.total)
        pool = replace(pool, high=pool.high + raised) if pool.value <= 0 else pool
    return replace(
        found,
        requested=found.requested - taken.value,  # engines that take what is free find so much less
        pool=pool,
        initial_use=found.initial_use.plus(kept),
        assumptions=(*found.assumptions, *shared_assumptions(gpu)),
    )


def less_elsewhere(gpu: GpuSpec) -> int:
    """Bytes that a program is told of less on another system, as that one comes; 0: nowhere.

    Unit: bytes
    """
    others = (setting.usable_memory_bytes for setting in gpu.memory_settings if setting.by_default)
    return max((gpu.usable_memory_bytes - other for other in others), default=0) if gpu.unified_memory else 0


def shared_assumptions(gpu: GpuSpec) -> tuple[Assumption, ...]:
    """What was taken of the machine around the GPU."""
    found: list[Assumption] = []
    if gpu.unified_memory:
        kept = system_use(gpu)
        inside = f"{format_gib(kept.low)} to {format_gib(kept.high)} of it are the system's" if kept.high else ""
        why = "shared with the host: " + (inside or "the system lives in what the GPU may not use")
        found.append(Assumption(name="memory", value=gpu.usable_memory_bytes, why=why))
    return (*found, *elsewhere(gpu))


def elsewhere(gpu: GpuSpec) -> tuple[Assumption, ...]:
    """What programs are told of on other systems; on Windows the desktop keeps a part of it."""
    found = []
    for setting in gpu.memory_settings:
        said = "as it comes" if setting.by_default else "at most"
        why = f"{setting.system}, {said}: {format_gib(setting.usable_memory_bytes)}"
        why += ", of which the desktop keeps some" if setting.system.startswith("Windows") else ""
        found.append(Assumption(name="memory elsewhere", value=setting.usable_memory_bytes, why=why))
    return tuple(found)
