"""The answer to `kvcalc kv`: what one token and one sequence of cache cost."""

from typing import ClassVar

from kvcalc.results.base import Report
from kvcalc.specs.base import Frozen


class KvGroup(Frozen):
    """Layers whose cache grows alike; bytes of all of them together, all GPUs together."""

    kind: str
    layers: int
    bytes_per_token: int | float
    window: int | None
    state_bytes: int
    read_limit_tokens: int | None = None


class KvPoint(Frozen):
    """One sequence at a context, state included. `read_bytes` is what a decode step reads of it."""

    context: int
    bytes: int | float
    read_bytes: int | float
    engine_bytes_per_gpu: int | None = None  # what the engine sets aside for it: blocks, padding, tokens in flight


class KvModel(Frozen):
    """One model with one cache."""

    name: str
    variant: str  # "as it is", "fp8 cache", "full heads instead of latent"
    cache_dtype: str
    bytes_per_token: int | float
    bytes_per_token_at_start: int | float
    fixed_bytes_per_sequence: int
    max_context: int | None
    groups: tuple[KvGroup, ...]
    by_context: tuple[KvPoint, ...]
    ratio: float  # of its cache at the longest context to that of the model as it is


class GpuMemory(Frozen):
    """A common GPU, to compare a cache with."""

    name: str
    memory_bytes: int


class KvResult(Frozen):
    """Every model with every cache type that was asked for."""

    models: tuple[KvModel, ...]
    engine: str
    variants: tuple[KvModel, ...]  # of a single model: the same with other caches
    batch: int
    gpus: tuple[GpuMemory, ...]

    def of_batch(self, point: KvPoint) -> float:
        """Bytes of all sequences together."""
        return point.bytes * self.batch


class KvReport(Report):
    command: ClassVar[str] = "kv"
    result: KvResult
