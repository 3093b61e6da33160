"""budget.toml: deployments and the limits that they must keep."""

from typing import Annotated, Any, Literal

from kvcalc.specs.base import Frozen, field_names
from kvcalc.specs.constraints import FromText, Within
from kvcalc.specs.deployment import count, tokens
from kvcalc.units import parse_seconds

SCHEMA = "kvcalc.budget/1"

Number = Annotated[float, Within(gt=0)]
Whole = Annotated[int, Within(gt=0)]


def _seconds(what: str) -> FromText:
    return FromText(parse_seconds, what, example="25ms")


class Limits(Frozen):
    """What must hold. None: not limited. In the file the names have hyphens."""

    fits: bool | None = None
    min_sequences: Annotated[Number | None, count("min-sequences")] = None
    min_batch: Annotated[Whole | None, count("min-batch")] = None
    min_tokens: Annotated[Whole | None, tokens("min-tokens")] = None
    max_weight_gib: Number | None = None
    max_kv_bytes_per_token: Number | None = None
    max_tpot: Annotated[Number | None, _seconds("max-tpot")] = None
    max_ttft: Annotated[Number | None, _seconds("max-ttft")] = None
    min_tokens_per_second: Number | None = None
    max_usd_per_mtok: Number | None = None
    max_gpus: Whole | None = None
    judge: Literal["high", "value", "bound"] = "high"

    @property
    def given(self) -> dict[str, float | bool]:
        """The limits that were set, by their names in the file."""
        values = {name: getattr(self, name) for name in field_names(type(self)) if name != "judge"}
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


class Budget(Frozen):
    """The whole file."""

    path: str
    entries: tuple[Entry, ...]
