"""Ranges: how far measurements of deployments that no constant was fitted to fall from the estimate.

From whole left-out cells (model × GPU × engine), for residuals differ by cell and not by point; `ranges.toml` says how
many cells and which coverage. A kind is named for what is timed (decode, prompt, first-token), for dense models or
those with experts, for an engine or one span of its versions where enough cells say so (both sorts of models together
where each alone has too few), and for how well the GPU is known:

    measured    its kernels were
    unmeasured  other GPUs' constants with its own peaks; the range is from measured GPUs, timed as if they were not
    judged      no GPU of its maker was measured, or a constant rests on one report: set by hand, wide
    eager       hosts launch kernel by kernel, each at its own speed: as judged, but for dense decode, which is wider

Source: `ranges.toml`, made by `benchmarks/refit.py`; each row says whether it was counted or is a judgement
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from kvcalc.errors import KvcalcError
from kvcalc.timing.machine import Machine

FILE = Path(__file__).with_name("ranges.toml")
MEASURED_MAKER = "NVIDIA"  # whose GPUs have files of measured kernels
Timed = Literal["decode", "prompt", "first-token"]
Knowledge = Literal["measured", "unmeasured", "judged", "eager"]
BY_DOUBT: tuple[Knowledge, ...] = ("measured", "unmeasured", "judged", "eager")


class Spread(NamedTuple):
    """low and high of about 80 % of measured times, as shares of the estimate."""

    kind: str
    low: float
    high: float
    points: int = 0
    cells: int = 0
    coverage: float = 0  # of cells left out of the range too
    note: str = ""


@cache
def spreads() -> dict[str, Spread]:
    """All ranges by kind."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))["range"]
    return {table["kind"]: Spread(**table) for table in tables}


def spread(kind: str) -> Spread:
    """The range of one kind of estimate.

    Raises:
        KvcalcError: no such kind.
    """
    found = spreads().get(kind)
    if found is None:
        raise KvcalcError(f"no range for estimates of kind {kind!r}", hint=f"kinds: {', '.join(spreads())}")
    return found


def range_around(machine: Machine, routed: bool, timed: Timed, at_best: Knowledge = "measured") -> Spread:
    """The range of what is timed on a machine, for a dense model or one whose router chooses experts.

    `at_best`: how well what runs there is known; see `Replica.knowledge`.
    """
    known = spreads()
    return spread(next((kind for kind in kinds(machine, routed, timed, at_best) if kind in known), timed))


def kinds(machine: Machine, routed: bool, timed: Timed, at_best: Knowledge = "measured") -> tuple[str, ...]:
    """Names of the range, the most special first; the last one always exists."""
    profile = machine.profile
    if machine.ggml is not None:
        where = "offload" if machine.offloads else machine.ggml.backend
        what = "decode" if timed == "decode" else "prompts"
        return (f"llamacpp-{where}-{'moe' if routed else 'dense'}-{what}", f"llamacpp-{where}-{what}")
    plain = f"{'moe' if routed else 'dense'}-{timed}"
    known = max(knowledge(machine), at_best, key=BY_DOUBT.index)
    own = (f"{profile.engine}-{plain}", f"{profile.engine}-{timed}")
    if known == "measured":
        return (f"{profile.name}-{plain}", *own, plain)
    doubts = (known, "judged") if known == "eager" else (known,)
    return tuple(f"{kind}-{doubt}" for doubt in doubts for kind in (*own, plain))


def knowledge(machine: Machine) -> Knowledge:
    """How well the kernels of the GPU are known."""
    if machine.kernels.like is None:
        return "measured"
    return "unmeasured" if machine.gpu.vendor == MEASURED_MAKER else "judged"
