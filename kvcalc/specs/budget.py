"""budget.toml: deployments and the limits that they must keep."""

from typing import Annotated, Any, Literal

from kvcalc.specs.base import Frozen, field, field_names
from kvcalc.specs.constraints import FromText, Within
from kvcalc.specs.deployment import byte_size, count, number, tokens, usd
from kvcalc.units import parse_seconds

SCHEMA = "kvcalc.budget/1"

Number = Annotated[float, Within(gt=0)]
Whole = Annotated[int, Within(gt=0)]


def _seconds(what: str) -> FromText:
    return FromText(parse_seconds, what, example="25ms")


Judge = Literal["high", "value", "bound"]
CONDITIONS = ("judge", "percentile", "request_rate", "seed")  # of limits, and no limits themselves
SIMULATED = ("max-simulated-ttft", "max-simulated-tpot", "max-simulated-e2e", "min-goodput")


class Limits(Frozen):
    """What must hold. None: not limited. In the file the names have hyphens."""

    fits: bool | None = None
    min_sequences: Annotated[Number | None, count("min-sequences")] = None
    min_batch: Annotated[Whole | None, count("min-batch")] = None
    min_tokens: Annotated[Whole | None, tokens("min-tokens")] = None
    max_weight_gib: Annotated[Number | None, number("max-weight-gib", "20")] = None
    max_kv_bytes_per_token: Annotated[Number | None, byte_size("max-kv-bytes-per-token")] = None
    max_tpot: Annotated[Number | None, _seconds("max-tpot")] = None
    max_ttft: Annotated[Number | None, _seconds("max-ttft")] = None
    min_tokens_per_second: Annotated[Number | None, number("min-tokens-per-second", "2000")] = None
    max_usd_per_mtok: Annotated[Number | None, FromText(usd, "max-usd-per-mtok")] = None
    max_usd_per_month: Annotated[Number | None, FromText(usd, "max-usd-per-month")] = None
    max_gpus: Annotated[Whole | None, count("max-gpus")] = None
    max_simulated_ttft: Annotated[Number | None, _seconds("max-simulated-ttft")] = None
    max_simulated_tpot: Annotated[Number | None, _seconds("max-simulated-tpot")] = None
    max_simulated_e2e: Annotated[Number | None, _seconds("max-simulated-e2e")] = None
    min_goodput: Annotated[Number | None, number("min-goodput", "1.9")] = (
        None  # requests a second that keep the three above
    )
    # How they are judged.
    judge: Judge = "high"
    percentile: Annotated[float, Within(gt=0, le=99.999), number("percentile", "95")] = 99.0  # of what is simulated
    request_rate: Annotated[Number | None, number("request-rate", "2.5")] = (
        None  # that arrives; None: `concurrency` clients
    )
    seed: Annotated[int, Within(ge=0, le=2**63)] = 0

    @property
    def given(self) -> dict[str, float | bool]:
        """The limits that were set, by their names in the file."""
        values = {name: getattr(self, name) for name in field_names(type(self)) if name not in CONDITIONS}
        return {name.replace("_", "-"): value for name, value in values.items() if value is not None}


class Entry(Frozen):
    """One deployment of the file: its flags as text, and its limits."""

    name: str
    model: str
    gpu: str
    flags: dict[str, Any]
    limits: Limits
    place: str  # "deployment 2 (chat)": for messages
    line: int = 1  # where its table begins
    lines: dict[str, int] = field(default_factory=dict)  # of its limits, by name


class Budget(Frozen):
    """The whole file."""

    path: str
    entries: tuple[Entry, ...]
