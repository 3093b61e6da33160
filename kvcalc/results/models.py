"""The answers to `kvcalc models` (the cards) and `kvcalc models MODEL` (what one model is made of)."""

from typing import ClassVar

from kvcalc.results.base import Report
from kvcalc.specs.base import Frozen


class ModelRow(Frozen):
    """One card in the list."""

    name: str
    title: str
    hub: str | None
    parameters: int
    active_parameters: int
    weight_bytes: int
    kv_bytes_per_token: int | float  # once every window is full
    kv_bytes_per_token_at_start: int | float  # while every window is still filling
    fixed_bytes_per_sequence: int
    max_context: int | None
    quantization: str | None


class ModelsResult(Frozen):
    """Every card, by name."""

    models: tuple[ModelRow, ...]


class ModelsReport(Report):
    command: ClassVar[str] = "models"
    result: ModelsResult


class FormatShare(Frozen):
    """What of the weights is stored in one format. Bytes include scales and zero points."""

    format: str
    parameters: int
    bytes: int


class PublishedCount(Frozen):
    """A count by others, beside kvcalc's."""

    name: str
    published: int
    counted: int
    source: str

    @property
    def error(self) -> float:
        """Of the count, as a share of what was published."""
        return self.counted / self.published - 1


class ModelResult(Frozen):
    """One model. The cache is ideal: elements × the cache dtype that `auto` means, all GPUs together."""

    name: str
    family: str
    layers: int
    hidden: int
    vocab: int
    parameters: int  # without MTP layers
    mtp_parameters: int
    active_parameters: int  # of the text model, per token; embedding and head counted
    by_category: dict[str, int]
    weight_bytes: int  # the file, MTP layers included
    mtp_weight_bytes: int
    weight_bytes_from: str  # "headers of 4 safetensors files", "the config"
    counted_weight_bytes: int  # as counted from the config, where the headers were read too
    formats: tuple[FormatShare, ...]
    dtype: str
    quantization: str | None
    cache_dtype: str
    kv_bytes_per_token: int | float  # once every window is full
    kv_bytes_per_token_at_start: int | float  # while every window is still filling
    fixed_bytes_per_sequence: int
    max_context: int | None
    published: tuple[PublishedCount, ...]

    @property
    def category_shares(self) -> list[tuple[str, int, float]]:
        """Name, parameters and share of all of each category, the largest first."""
        whole = self.parameters or 1
        ordered = sorted(self.by_category.items(), key=lambda pair: -pair[1])
        return [(name, count, count / whole) for name, count in ordered]


class ModelReport(Report):
    command: ClassVar[str] = "models"
    result: ModelResult
