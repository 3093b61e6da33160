"""budget.toml: deployments and the limits that they must keep."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from kvcalc.specs.base import Frozen
from kvcalc.specs.deployment import count, tokens
from kvcalc.units import parse_seconds

SCHEMA = "kvcalc.budget/1"


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f'{value} has no unit; write "25ms" or "1s"')
    return parse_seconds(value)


class Limits(Frozen):
    """What must hold. None: not limited."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    fits: StrictBool | None = None
    min_sequences: Annotated[float | None, Field(alias="min-sequences", gt=0), count("min-sequences")] = None
    min_batch: Annotated[int | None, Field(alias="min-batch", gt=0), count("min-batch")] = None
    min_tokens: Annotated[int | None, Field(alias="min-tokens", gt=0), tokens("min-tokens")] = None
    max_weight_gib: Annotated[float | None, Field(alias="max-weight-gib", gt=0)] = None
    max_kv_bytes_per_token: Annotated[float | None, Field(alias="max-kv-bytes-per-token", gt=0)] = None
    max_tpot: Annotated[float | None, Field(alias="max-tpot", gt=0), BeforeValidator(_seconds)] = None
    max_ttft: Annotated[float | None, Field(alias="max-ttft", gt=0), BeforeValidator(_seconds)] = None
    min_tokens_per_second: Annotated[float | None, Field(alias="min-tokens-per-second", gt=0)] = None
    max_usd_per_mtok: Annotated[float | None, Field(alias="max-usd-per-mtok", gt=0)] = None
    max_gpus: Annotated[int | None, Field(alias="max-gpus", gt=0)] = None
    judge: Literal["high", "value", "bound"] = "high"

    @model_validator(mode="before")
    @classmethod
    def _yes_is_no_number(cls, values: Any) -> Any:
        for name, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, bool) and name != "fits":
                raise ValueError(f"{name} = {str(value).lower()} is not a number")
        return values

    @property
    def given(self) -> dict[str, float | bool]:
        """The limits that were set, by their names in the file."""
        names = {field: info.alias or field for field, info in type(self).model_fields.items()}
        values = {names[field]: getattr(self, field) for field in names if field != "judge"}
        return {name: value for name, value in values.items() if value is not None}


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
