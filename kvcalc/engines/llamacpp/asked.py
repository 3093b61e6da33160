"""The cache that `-c` asks for: exactly so many cells, shared by the slots of `-np`, however much memory is free.

Without `-np` the server has four slots, and any of them may use every cell (one unified stream). With `-np N` each slot
has a stream of its own with c / N cells.

Source: llama_context in ggml-org/llama.cpp, src/llama-context.cpp (n_ctx_seq = GGML_PAD(n_ctx / n_seq_max, 256));
tools/server/server.cpp: "n_parallel is set to auto, using n_parallel = 4 and kv_unified = true"
"""

from kvcalc.engines.capacity import Capacity, Group, Pool, length_of
from kvcalc.engines.llamacpp.dtypes import key_value_types
from kvcalc.engines.llamacpp.rows import CELLS, layers_of, micro_batch_of, padded, row_bytes, sliding_cells, state_bytes
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec, Recurrent

SLOTS = 4  # of a server that was not told


class Slots(Pool):
    """Slots of equal size, each with room for `cells` tokens: a longer sequence has none."""

    cells: int

    def blocks(self, context: int) -> int:
        return 1 if context <= self.cells else self.num_blocks + 1


class SharedCells(Pool):
    """One stream of cells that every slot may fill: sequences take what they hold, at most `slots` at once."""

    slots: int

    def max_batch(self, context: int) -> int | None:
        return min(self.slots, self.num_blocks // max(1, context))


def slots_of(deployment: Deployment) -> int:
    """Sequences that the server works on at once.

    Unit: sequences
    """
    return deployment.parallel or SLOTS


def slot_cells(deployment: Deployment) -> int:
    """Tokens that one sequence may have.

    Unit: tokens

    >>> slot_cells(Deployment(ctx_size=32768)), slot_cells(Deployment(ctx_size=32768, parallel=4))
    (32768, 8192)
    """
    whole = deployment.ctx_size or 0
    return padded(whole) if deployment.parallel is None else padded(-(-whole // deployment.parallel))


def asked_bytes(model: ModelSpec, deployment: Deployment, stages: list[frozenset[int]]) -> int:
    """Bytes of the whole cache on the fullest GPU.

    Formula: streams * layers * cells * row, windows of (slots in a stream) * window + micro-batch cells, states by slot
    Unit: bytes
    Source: llama_context and llama_kv_cache_iswa in ggml-org/llama.cpp, src/llama-context.cpp and
    src/llama-kv-cache-iswa.cpp; n_parallel and kv_unified in tools/server/server.cpp
    """
    return max(_stage_bytes(model, deployment, stage) for stage in stages)


def _stage_bytes(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> int:
    types, slots, cells = key_value_types(deployment), slots_of(deployment), slot_cells(deployment)
    streams, inside = (1, slots) if deployment.parallel is None else (slots, 1)
    micro_batch = micro_batch_of(deployment)
    found = 0
    for group, count in layers_of(model, deployment, stage):
        for mixer in group.mixers:
            if isinstance(mixer, Recurrent):
                found += count * slots * state_bytes(mixer, deployment.num_speculative_tokens)
                continue
            window = getattr(mixer, "window", None)
            held = cells if window is None else sliding_cells(cells, window, inside, micro_batch)
            found += count * streams * held * row_bytes(mixer, types)
    return -(-found // deployment.tensor_parallel_size)


def asked_capacity(
    model: ModelSpec, deployment: Deployment, pool_bytes: int, stages: list[frozenset[int]], groups: tuple[Group, ...]
) -> Capacity:
    """What the asked cells hold; `groups` say how they grow."""
    slots, cells = slots_of(deployment), slot_cells(deployment)
    size = asked_bytes(model, deployment, stages)
    pool: Pool
    if deployment.parallel is None:
        # Windows and states are there at once: a cell's share of all is what one token takes.
        pool = SharedCells(num_blocks=cells, block_bytes=-(-size // cells), groups=_by_token(groups), slots=slots)
        total = cells
    else:
        pool = Slots(num_blocks=slots, block_bytes=-(-size // slots), groups=groups, cells=cells)
        total = slots * cells
    return Capacity(
        pools=(pool,),
        pool_bytes=pool_bytes,
        kv_cache_size_tokens=total,
        max_model_len=min(cells, length_of(model, deployment) or cells),
        rule="cells of all slots: what -c asks for",
        rounding=f"{slots} slot{'s' if slots > 1 else ''}, cells in multiples of {CELLS}",
    )


def _by_token(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """One group that takes a cell for each token, and beside it only what says how the bytes grow."""
    whole = Group(kind="full", layers=0, page_bytes=0, block_size=1)
    growing = (
        Group(kind=group.kind, layers=group.layers, page_bytes=0, token_bytes=group.token_bytes, window=group.window)
        for group in groups
    )
    return (whole, *growing)
