"""Bytes of a cell's row and of a state, and how many cells there are.

Source: ggml-org/llama.cpp: src/llama-kv-cache.cpp for rows, src/llama-kv-cache-iswa.cpp for windows
(GGML_PAD(min(size_base, n_swa * n_seq + n_ubatch), 256)), src/llama-memory-recurrent.cpp and llama_hparams::n_embd_r
and n_embd_s for states (n_rows = mem_size * (1 + n_rs_seq))
"""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

from kvcalc.counting.cache import element_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import Attention, LatentAttention, LayerGroup, Mixer, ModelSpec, Recurrent

CELLS = 256  # cells come in multiples of this
MICRO_BATCH = 512  # n_ubatch: tokens written before the oldest of a window may go
STATE_BYTES = 4


def row_bytes(mixer: Mixer, types: tuple[str, str]) -> int:
    """One token in one layer: a latent's row has no values beside it.

    Formula: ceil(kv_heads * (head_dim * key_bytes + v_head_dim * value_bytes)); ceil((rank + rope) * key_bytes)
    Unit: bytes
    """
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
    """One layer's state of one sequence, in float32, and one more to roll back to for each drafted token.

    Formula: 4 * (1 + drafted) * (conv_channels * max(0, conv_kernel - 1) + state_elements)
    Unit: bytes
    """
    elements = mixer.conv_channels * max(0, mixer.conv_kernel - 1) + mixer.state_elements
    return elements * STATE_BYTES * (1 + drafted)


def padded(cells: int) -> int:
    """Cells in whole multiples.

    Unit: cells

    >>> padded(128 + 512)
    768
    """
    return -(-cells // CELLS) * CELLS


def sliding_cells(n_ctx: int, window: int, sequences: int = 1, micro_batch: int = MICRO_BATCH) -> int:
    """Cells of a windowed layer: every sequence's window and one micro-batch, never more than the context.

    Unit: cells

    >>> sliding_cells(8192, 4096, sequences=4), sliding_cells(131072, 128), sliding_cells(131072, 128, 1, 2048)
    (8192, 768, 2304)
    """
    return min(n_ctx, padded(sequences * window + micro_batch))


def micro_batch_of(deployment: Deployment) -> int:
    """Tokens that are computed together.

    Unit: tokens
    """
    return deployment.ubatch_size or MICRO_BATCH


def layers_of(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> Iterator[tuple[LayerGroup, int]]:
    """Groups and how many of their layers a stage holds; a draft model's are beside those of every stage.

    Unit: layers
    """
    for group in model.groups:
        yield group, len(stage.intersection(group.layers))
    if deployment.draft is not None:
        yield from ((group, group.count) for group in model.mtp)
