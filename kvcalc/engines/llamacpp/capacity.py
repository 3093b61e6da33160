"""llama.cpp: cells, allocated whole at start-up: cells × streams × layers × row.

Read from its start-up logs and llama-kv-cache*.cpp: a stream of cells for each sequence, cells in multiples of 256,
windowed layers with a window and a micro-batch of cells, states in float32, latents without values.
"""

from fractions import Fraction
from math import ceil

from kvcalc.counting.cache import element_bytes
from kvcalc.counting.placement import host_part
from kvcalc.engines.capacity import Capacity, Group, Pool, length_of
from kvcalc.engines.llamacpp.dtypes import key_value_types
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import Attention, LatentAttention, Mixer, ModelSpec, Recurrent

CELLS = 256  # cells come in multiples of this
MICRO_BATCH = 512  # n_ubatch: tokens written before the oldest of a window may go
STATE_BYTES = 4


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int, stages: list[frozenset[int]]) -> Capacity:
    """Cells in `pool_bytes`, sequences taking streams of their own."""
    part = host_part(model, deployment)
    if part is not None:
        stages = [frozenset(layer for layer in stage if layer >= part.first) for stage in stages]
    found = [_groups(model, deployment, stage) for stage in stages]
    length = length_of(model, deployment)
    groups = max(found, key=lambda groups: sum(group.blocks(length or CELLS) for group in groups))
    pool = Pool(name="cells", num_blocks=pool_bytes, block_bytes=1, groups=groups)
    tokens = None
    if any(group.block_size for group in groups) and length:
        sequences = pool.concurrency(length)
        tokens = None if sequences is None else int(sequences * length)
    return Capacity(
        pools=(pool,),
        pool_bytes=pool_bytes,
        kv_cache_size_tokens=tokens,
        max_model_len=length,
        rule="cells of all streams: pool × n_ctx / bytes of one stream",
        rounding=f"cells in multiples of {CELLS}, windows with a micro-batch beside them, states in float32",
    )


def row_bytes(mixer: Mixer, types: tuple[str, str]) -> int:
    """One token in one layer: a latent's row has no values beside it."""
    key, value = (Fraction(element_bytes(name)) for name in types)
    if isinstance(mixer, LatentAttention):
        return ceil((mixer.kv_lora_rank + mixer.rope_head_dim) * key) if mixer.owns_cache else 0
    if isinstance(mixer, Attention):
        each = mixer.head_dim * key + mixer.v_head_dim * value
        return ceil(mixer.kv_heads * each) if mixer.owns_cache else 0
    if isinstance(mixer, Recurrent):
        return 0
    raise KvcalcError(f"llama.cpp's cells for {mixer.kind} attention are not known", hint="use --engine ideal")


def state_bytes(mixer: Recurrent, drafted: int = 0) -> int:
    """One layer's state of one sequence, in float32, and one more to roll back to for each drafted token."""
    elements = mixer.conv_channels * max(0, mixer.conv_kernel - 1) + mixer.state_elements
    return elements * STATE_BYTES * (1 + drafted)


def padded(cells: int) -> int:
    """Cells in whole multiples.

    >>> padded(128 + 512)
    768
    """
    return -(-cells // CELLS) * CELLS


def sliding_cells(n_ctx: int, window: int, sequences: int = 1, micro_batch: int = MICRO_BATCH) -> int:
    """Cells of a windowed layer: every sequence's window and one micro-batch, never more than the context.

    >>> sliding_cells(8192, 4096, sequences=4), sliding_cells(131072, 128), sliding_cells(131072, 128, 1, 2048)
    (8192, 768, 2304)
    """
    return min(n_ctx, padded(sequences * window + micro_batch))


def _groups(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> tuple[Group, ...]:
    """One stream. GPUs that share a model split its layers' rows evenly."""
    types, tp = key_value_types(deployment), deployment.tensor_parallel_size
    micro_batch = deployment.ubatch_size or MICRO_BATCH
    rows: dict[int | None, int] = {}
    state = 0
    for group in model.groups:
        count = len(stage.intersection(group.layers))
        for mixer in group.mixers:
            if isinstance(mixer, Recurrent):
                state += count * state_bytes(mixer, deployment.num_speculative_tokens)
            elif count:
                window = getattr(mixer, "window", None)
                rows[window] = rows.get(window, 0) + count * row_bytes(mixer, types)
    found = [_rows(window, -(-size // tp), micro_batch) for window, size in rows.items() if size]
    if state:
        found.append(Group(kind="state", layers=1, page_bytes=state, fixed_blocks=1, weight=-(-state // tp)))
    return tuple(found)


def _rows(window: int | None, row: int, micro_batch: int) -> Group:
    return Group(
        kind="full" if window is None else "sliding",
        layers=1,
        page_bytes=row * CELLS,
        block_size=CELLS,
        most_tokens=None if window is None else padded(window + micro_batch),
        weight=row * CELLS,
        token_bytes=row,
        window=window,
    )


def admitted(held: Capacity, deployment: Deployment) -> int | None:
    """The pool sets no limit but its room."""
    return None
