"""The answer to `kvcalc diagnose`: what a start-up log says, and whether it is what should be expected."""

from typing import Any, ClassVar

from kvcalc.results.base import Report
from kvcalc.results.size import Advice
from kvcalc.specs.base import Frozen


class Compared(Frozen):
    """One figure of the log beside the predicted one. `error` is predicted / log - 1."""

    name: str
    unit: str  # bytes | tokens | blocks | sequences
    log: float | int
    predicted: float | int
    low: float | int | None = None  # an estimate's range
    high: float | int | None = None
    error: float | None = None
    agrees: bool


class MemoryLine(Frozen):
    """One share of a GPU's memory, as the log has it and as it was predicted."""

    name: str
    log_bytes: int | None
    predicted_bytes: int | None = None
    low_bytes: int | None = None
    high_bytes: int | None = None
    note: str = ""


class Explained(Frozen):
    """Why the engine refused to start."""

    kind: str
    line: str  # the log's own words
    number: int
    why: tuple[str, ...]  # in words, with numbers


class Evidence(Frozen):
    """A line that a figure was read from."""

    fact: str
    value: str | int | float | bool
    number: int
    rank: str | None
    source: str


class DiagnoseResult(Frozen):
    """Bytes are of one GPU, the one with the least room; tokens and sequences of one replica."""

    engine: str
    version: str | None
    model: str | None
    gpu: str | None
    started: bool
    log: dict[str, Any]
    predicted: dict[str, Any]
    memory: tuple[MemoryLine, ...]
    agreement: tuple[Compared, ...]
    refusals: tuple[Explained, ...] = ()
    missing: tuple[str, ...] = ()  # what the log does not say, and the flag that says it
    advice: tuple[Advice, ...] = ()
    command: str | None = None  # that this start answers to
    mended_command: str | None = None  # the same with the first change that makes it start
    evidence: tuple[Evidence, ...] = ()


class DiagnoseReport(Report):
    command: ClassVar[str] = "diagnose"
    result: DiagnoseResult
