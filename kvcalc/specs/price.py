"""What an hour costs: of one accelerator, of a cloud's machine, of a whole deployment."""

from typing import Annotated, Literal

from kvcalc.specs.base import Assumption, Frozen, Positive, field
from kvcalc.specs.constraints import Within
from kvcalc.specs.dates import PartialDate

Usd = Annotated[float, Within(gt=0, le=1e6)]
Pricing = Literal["on-demand", "spot", "reserved"]


class Price(Frozen):
    """What an hour of one GPU costs."""

    low_usd_per_hour: Usd
    median_usd_per_hour: Usd
    high_usd_per_hour: Usd
    date: PartialDate
    source: str
    sellers: Positive = 1  # how many the range is over


class MachinePrice(Frozen):
    """What an hour of a whole machine costs."""

    usd_per_hour: Usd
    date: PartialDate
    source: str
    url: str | None = None
    confidence: str = "high"


class Instance(Frozen):
    """A machine of a cloud."""

    name: str  # p5.48xlarge
    seller: str
    region: str | None = None
    gpus: Positive  # accelerators in it
    network_bandwidth_bytes_per_s: float | None = None  # of the whole machine, one direction
    host_memory_bytes: Positive | None = None
    prices: dict[Pricing, MachinePrice] = field(default_factory=dict)
    note: str | None = None


class Bill(Frozen):
    """What a deployment's GPUs cost an hour, those that stand idle in its machines included."""

    price: Price | None  # of one GPU; None: nobody's is known
    gpus: Positive  # billed
    idle_gpus: int = 0  # of them, without work
    instances: Positive | None = None  # whole machines that are billed
    assumptions: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def usd_per_hour(self) -> float | None:
        """Of the whole deployment, at the price's median."""
        return None if self.price is None else self.price.median_usd_per_hour * self.gpus
