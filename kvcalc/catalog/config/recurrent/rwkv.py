"""RWKV 4 to 7 (Peng et al. 2023, 2024, 2025): time mixing with a state per head, and two shifts of one token.

A shift is a convolution over two tokens: one column is kept for the time mixing, one for the channel mixing.
"""

from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.recurrent.parts import Mixed, dotted, matrix, vector
from kvcalc.errors import KvcalcError
from kvcalc.specs.model import Recurrent, Tensor

DECAY_RANK = 64  # of RWKV-6's token-dependent decay


def rwkv(keys: Keys, hidden: int, prefix: str = "attention") -> Mixed:
    """The time mixing of one layer; the generation is told by the keys of its low-rank parts and heads.

    Version 4 keeps a numerator, a denominator and a maximum per channel; later ones a head_size × head_size matrix
    per head. All in fp32.
    """
    width = keys.integer("attention_hidden_size", "dim_att") or hidden
    if keys.raw("decay_low_rank_dim") is not None:
        tensors, size = _version7(keys, hidden, dotted(prefix))
    elif keys.raw("head_size") is not None:
        size = keys.need("head_size")
        tensors = _version5(keys, hidden, width, size, dotted(prefix))
    else:
        mixer = _mixer(hidden, heads=0, state=3 * width)
        return Mixed(mixer, tuple(_version4(hidden, width, dotted(prefix))))
    if width % size:
        raise KvcalcError(
            f"{width} elements of time mixing do not divide into heads of {size}",
            hint=f"correct {keys.path('head_size')}",
        )
    return Mixed(_mixer(hidden, heads=width // size, state=width * size), tuple(tensors))


def _mixer(hidden: int, heads: int, state: int) -> Recurrent:
    return Recurrent(
        family="rwkv",
        conv_channels=2 * hidden,
        conv_kernel=2,
        heads=heads,
        state_elements=state,
        state_dtype="fp32",
    )


def _version4(hidden: int, width: int, at: str) -> list[Tensor]:
    tensors = vector(f"{at}time_decay", width) + vector(f"{at}time_first", width)
    for name in ("key", "value", "receptance"):
        tensors += vector(f"{at}time_mix_{name}", 1, 1, hidden, split="whole")
        tensors += matrix(f"{at}{name}", width, hidden, "columns")
    return tensors + matrix(f"{at}output", hidden, width, "rows")


def _version5(keys: Keys, hidden: int, width: int, size: int, at: str) -> list[Tensor]:
    """Versions 5 and 6: the sixth has low-rank, token-dependent mixing and decay."""
    heads = width // size
    tensors = vector(f"{at}time_faaaa", heads, size)
    if (keys.text("model_type") or "").startswith("rwkv6"):
        rank = 64 if hidden >= 4096 else 32
        for name in ("x", "w", "k", "v", "r", "g"):
            tensors += vector(f"{at}time_maa_{name}", 1, 1, hidden, split="whole")
        tensors += matrix(f"{at}time_maa_w1", 5 * rank, hidden, "whole")
        tensors += matrix(f"{at}time_maa_w2", hidden, rank, "whole", copies=5)
        decay = 2 * DECAY_RANK if hidden >= 4096 else DECAY_RANK
        tensors += vector(f"{at}time_decay", 1, 1, width)
        tensors += matrix(f"{at}time_decay_w1", decay, hidden, "whole")
        tensors += matrix(f"{at}time_decay_w2", width, decay, "columns")
    else:
        tensors += vector(f"{at}time_decay", heads, size)
        for name in ("key", "value", "receptance", "gate"):
            tensors += vector(f"{at}time_mix_{name}", 1, 1, hidden, split="whole")
    for name in ("receptance", "key", "value", "gate"):
        tensors += matrix(f"{at}{name}", width, hidden, "columns")
    for part in ("weight", "bias"):
        tensors += vector(f"{at}ln_x.{part}", width)
    return tensors + matrix(f"{at}output", hidden, width, "rows")


def _version7(keys: Keys, hidden: int, at: str) -> tuple[list[Tensor], int]:
    """The delta-rule generation: low-rank decay, learning rate, value residual and gate."""
    size = keys.need("head_dim", "head_size")
    ranks = {
        "w": keys.need("decay_low_rank_dim"),
        "a": keys.need("a_low_rank_dim"),
        "v": keys.need("v_low_rank_dim"),
        "g": keys.need("gate_low_rank_dim"),
    }
    tensors: list[Tensor] = []
    for name in ("r", "w", "k", "v", "a", "g"):
        tensors += vector(f"{at}x_{name}", 1, 1, hidden, split="whole")
    for name in ("k_k", "k_a"):
        tensors += vector(f"{at}{name}", hidden)
    tensors += vector(f"{at}r_k", hidden // size, size)
    for name in ("r_proj", "k_proj", "v_proj"):
        tensors += matrix(f"{at}{name}", hidden, hidden, "columns")
    for name, rank in ranks.items():
        tensors += matrix(f"{at}{name}_lora.lora.0", rank, hidden, "whole")
        tensors += matrix(f"{at}{name}_lora.lora.2", hidden, rank, "columns", bias=name != "g")
    for part in ("weight", "bias"):
        tensors += vector(f"{at}g_norm.{part}", hidden)
    return tensors + matrix(f"{at}o_proj", hidden, hidden, "rows"), size
