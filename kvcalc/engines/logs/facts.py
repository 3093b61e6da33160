"""What a start-up log says: values, each with the line that it is from."""

from collections.abc import Mapping

from kvcalc.specs.base import Frozen, field

Value = str | int | float | bool


class LogLine(Frozen):
    """Where a fact was read."""

    fact: str
    value: Value
    number: int  # of the line, from 1
    rank: str | None  # TP0, as the line says it
    source: str  # the engine's file, and the versions in which it was read


class LogCache(Frozen):
    """One cache as the engine announced it. Bytes are of one rank, all layers."""

    kind: str  # attention | latent | state
    size_bytes: int | None = None
    tokens: int | None = None  # cells
    slots: int | None = None  # of states
    layers: int | None = None
    streams: int | None = None  # llama.cpp: rows of cells that sequences do not share
    k_bytes: int | None = None
    v_bytes: int | None = None
    k_type: str | None = None
    v_type: str | None = None


class Refusal(Frozen):
    """Why the engine did not start."""

    kind: str  # cache-too-small | no-memory-for-cache | length-above-cache | card-in-use | out-of-memory ...
    text: str  # the line
    number: int


class LogFacts(Frozen):
    """A start. Bytes are of one GPU: the smallest pool, the largest of everything else over the ranks."""

    engine: str | None = None
    version: str | None = None
    model: str | None = None
    model_file: str | None = None  # llama.cpp names the file that it loads
    architecture: str | None = None
    gpu: str | None = None
    settings: Mapping[str, Value] = field(
        default_factory=dict
    )  # by the names of Deployment's fields, and a few beside them
    runner: str | None = None
    sampler: str | None = None

    total_bytes: int | None = None  # of the card
    free_bytes: int | None = None  # before the engine took anything
    requested_bytes: int | None = None
    weights_bytes: int | None = None
    consumed_bytes: int | None = None  # weights and non-torch together (vLLM since 0.27)
    non_torch_bytes: int | None = None
    activation_bytes: int | None = None
    activation_with_graphs_bytes: int | None = None  # the graph estimate is inside (vLLM since 0.27)
    graphs_bytes: int | None = None
    graphs_estimate_bytes: int | None = None
    pool_bytes: int | None = None  # for the cache
    free_before_load_bytes: int | None = None  # SGLang
    free_after_load_bytes: int | None = None
    free_after_pool_bytes: int | None = None

    blocks: int | None = None
    block_size: int | None = None
    tokens: int | None = None
    concurrency: float | None = None
    needed_bytes: int | None = None
    estimated_max_len: int | None = None
    encoder_tokens: int | None = None
    tried_bytes: int | None = None  # the allocation that failed
    free_at_failure_bytes: int | None = None
    in_use_bytes: int | None = None  # by the process, when it failed
    torch_allocated_bytes: int | None = None
    torch_idle_bytes: int | None = None  # reserved by PyTorch, and in no tensor
    short_bytes: int | None = None  # what was missing where a log prints a pool below zero

    caches: tuple[LogCache, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    lines: tuple[LogLine, ...] = ()
    starts: int = 1  # how many starts the text holds; the last one that says anything of memory counts
    others: tuple[str, ...] = ()  # the other starts, in words
    unused: tuple[str, ...] = ()  # what the text says and no engine can have meant, or of which start is not known
    first_line: int = 1  # of this start
    last_line: int = 1

    @property
    def cache_bytes(self) -> int | None:
        """Bytes of cache that were announced: the caches' own, else the pool."""
        sizes = [cache.size_bytes for cache in self.caches if cache.size_bytes is not None]
        return sum(sizes) if sizes else self.pool_bytes
