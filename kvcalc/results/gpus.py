"""The answers to `kvcalc gpus` (the catalog as a list) and `kvcalc gpus GPU` (every number, with its source)."""

from typing import ClassVar

from kvcalc.results.base import Report
from kvcalc.specs.base import Frozen, Source, field
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.price import Instance as Instance
from kvcalc.specs.price import MachinePrice as MachinePrice


class GpuRow(Frozen):
    """One accelerator in the list. The peak is dense, of 16-bit floats: bf16, or fp16 where there is no bf16."""

    name: str
    title: str
    vendor: str
    segment: str | None
    memory_bytes: int
    usable_memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    peak_dtype: str
    peak_flops: float
    ridge_flop_per_byte: float
    price_usd_per_hour: float | None  # median list price; None: no seller known
    price_date: str | None


class GpusResult(Frozen):
    """The accelerators of the catalog that were asked for: by vendor, segment and name."""

    gpus: tuple[GpuRow, ...]
    left_out: int = 0  # accelerators that the search did not match


class GpusReport(Report):
    command: ClassVar[str] = "gpus"
    result: GpusResult


class GpuNumber(Frozen):
    """One number of a spec. `name` is the spec's field: "memory_bytes", "peak_flops.bf16", "links.nvlink"."""

    name: str
    value: float | int
    unit: str
    source: Source | None


class GpuResult(GpuSpec):
    """The spec, its list price put in, and the numbers once more one by one, each with its source."""

    numbers: tuple[GpuNumber, ...]
    other_boards: tuple[GpuRow, ...] = ()  # what the name that was asked for may mean too
    ridge_flop_per_byte: dict[str, float]  # by element type
    price_age_days: int | None = None
    # Of a cloud's machine, by how it is paid.
    machine_price_age_days: dict[str, int] = field(default_factory=dict)


class GpuReport(Report):
    command: ClassVar[str] = "gpus"
    result: GpuResult


class MachineRow(Frozen):
    """A cloud's machine in the list. Prices are of the whole machine and hour; None: not known."""

    name: str
    seller: str
    region: str | None
    gpu: str
    gpus: int
    network_bandwidth_bytes_per_s: float | None
    on_demand_usd_per_hour: float | None
    spot_usd_per_hour: float | None
    reserved_usd_per_hour: float | None
    price_date: str | None  # of the on-demand price


class MachinesResult(Frozen):
    """The clouds' machines that were asked for, by seller."""

    machines: tuple[MachineRow, ...]
    left_out: int = 0  # machines that the search did not match, or that hold a part of a GPU


class MachinesReport(Report):
    command: ClassVar[str] = "gpus"
    result: MachinesResult
