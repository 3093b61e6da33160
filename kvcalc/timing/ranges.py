"""Ranges: how far measurements of deployments that no constant was fitted to fall from the estimate.

From whole left-out cells (model × GPU × engine), for residuals differ by cell and not by point; `ranges.toml` says how
many cells and which coverage.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kvcalc.errors import KvcalcError
from kvcalc.timing.engine_profiles import Profile

FILE = Path(__file__).with_name("ranges.toml")
UNMEASURED_LOW, UNMEASURED_HIGH = 0.93, 1.15  # a judgement: constants of other GPUs err up to twice as far


class Spread(NamedTuple):
    """low and high of about 80 % of measured times, as shares of the estimate."""

    kind: str
    low: float
    high: float
    points: int = 0
    cells: int = 0
    coverage: float = 0  # of cells left out of the range too

    def on_unmeasured_gpu(self) -> "Spread":
        """Wider, for constants that other GPUs lent."""
        return self._replace(low=self.low * UNMEASURED_LOW, high=self.high * UNMEASURED_HIGH)


@cache
def spread(kind: str) -> Spread:
    """The range of one kind of estimate.

    Raises:
        KvcalcError: no such kind.
    """
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))["range"]
    for table in tables:
        if table["kind"] == kind:
            return Spread(**table)
    known = ", ".join(table["kind"] for table in tables)
    raise KvcalcError(f"no range for estimates of kind {kind!r}", hint=f"kinds: {known}")


def range_around(kind: str, borrowed: bool) -> Spread:
    """The range of a kind; wider where the GPU's kernels were not measured."""
    found = spread(kind)
    return found.on_unmeasured_gpu() if borrowed else found


def pass_kind(profile: Profile, routed: bool, alone: bool) -> str:
    """Which range the time of a pass has: of a step that decodes, or of a prompt alone."""
    if profile.kernels == "llamacpp":
        return f"{profile.name}-{'prompts' if alone else 'decode'}"
    if alone:
        return "ttft-alone-amd" if profile.vendor == "AMD" else "ttft-alone"
    return "tpot-moe" if routed else "tpot-dense"


def ttft_kind(profile: Profile) -> str:
    """Which range the time to first token has where others are served too."""
    return "ttft-queue-prefill-first" if profile.prefill_first else "ttft-queue"
