"""Delta-rule memories: gated delta nets (Yang et al. 2024) and Kimi Delta Attention (Kimi Linear 2025).

Each value head keeps a matrix of key width × value width; queries, keys and values run through a short convolution
whose last K − 1 columns are kept.
"""

from typing import NamedTuple

from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.recurrent.mamba import declared_state_dtype
from kvcalc.catalog.config.recurrent.parts import Mixed, depthwise, dotted, matrix, vector
from kvcalc.specs.model import Recurrent, Tensor


def gated_delta_net(keys: Keys, hidden: int, prefix: str = "linear_attn", projections: str = "split") -> Mixed:
    """One decay per head and token (Qwen3-Next, Qwen3.5, OLMo-Hybrid).

    `projections` is how the checkpoint lays out its input matrices: "qkvz" with "ba" (Qwen3-Next), "split" into qkv,
    z, b and a (Qwen3.5), "fused" into one, or "separate" matrices and convolutions (OLMo-Hybrid).
    """
    at = dotted(prefix)
    sizes = _delta_sizes(keys, hidden)
    key, value, heads = sizes.key_heads * sizes.key_dim, sizes.value_heads * sizes.value_dim, sizes.value_heads
    said = declared_state_dtype(keys)
    kernel = keys.need("linear_conv_kernel_dim")
    if projections == "separate":
        inputs = {"q_proj": key, "k_proj": key, "v_proj": value, "a_proj": heads, "b_proj": heads, "g_proj": value}
        convolutions = {"q_conv1d": key, "k_conv1d": key, "v_conv1d": value}
        output, norm = "o_proj", "o_norm"
    else:
        inputs = {
            "qkvz": {"in_proj_qkvz": 2 * key + 2 * value, "in_proj_ba": 2 * heads},
            "fused": {"in_proj": 2 * key + 2 * value + 2 * heads},
        }.get(
            projections,
            {"in_proj_qkv": 2 * key + value, "in_proj_z": value, "in_proj_b": heads, "in_proj_a": heads},
        )
        convolutions = {"conv1d": 2 * key + value}
        output, norm = "out_proj", "out_norm" if projections == "fused" else "norm"
    tensors: list[Tensor] = []
    for name, size in inputs.items():
        tensors += matrix(f"{at}{name}", size, hidden, "columns")
    for name, channels in convolutions.items():
        tensors += depthwise(f"{at}{name}", channels, kernel)
    tensors += vector(f"{at}dt_bias", heads)
    # Where the config asks for an fp32 state, the decays are in fp32 too (Qwen3.5-122B: published bytes).
    tensors += vector(f"{at}A_log", heads, fp32=said == "fp32")
    tensors += vector(f"{at}{norm}.weight", sizes.value_dim, split="whole")
    tensors += matrix(f"{at}{output}", hidden, value, "rows")
    mixer = Recurrent(
        family="gated_delta_net",
        conv_channels=2 * key + value,
        conv_kernel=kernel,
        heads=heads,
        state_elements=value * sizes.key_dim,
        state_dtype=said,
    )
    return Mixed(mixer, tuple(tensors))


def kda(keys: Keys, hidden: int, prefix: str = "self_attn", low_rank: bool = True) -> Mixed:
    """One decay per channel; the state is always kept in fp32. `low_rank`: gates in two thin matrices, else in one."""
    at = dotted(prefix)
    nested = keys.child("linear_attn_config")
    if nested is not None:
        heads, dim, kernel = nested.need("num_heads"), nested.need("head_dim"), nested.need("short_conv_kernel_size")
    else:
        heads = keys.integer("linear_num_heads") or keys.need("num_attention_heads")
        dim = keys.integer("linear_head_dim") or keys.need("head_dim")
        kernel = keys.integer("linear_conv_kernel_dim") or keys.need("short_conv_kernel_size")
    width = heads * dim
    wide_gate = nested is not None and nested.flag("use_full_rank_gate")  # Kimi-K3: the output's gate alone
    tensors: list[Tensor] = []
    for name in ("q", "k", "v"):
        tensors += matrix(f"{at}{name}_proj", width, hidden, "columns")
        tensors += depthwise(f"{at}{name}_conv1d", width, kernel)
    for gate in ("f", "g"):
        if low_rank and not (wide_gate and gate == "g"):
            tensors += matrix(f"{at}{gate}_a_proj", dim, hidden, "whole")
            tensors += matrix(f"{at}{gate}_b_proj", width, dim, "columns")
        else:
            tensors += matrix(f"{at}{gate}_proj", width, hidden, "columns")
    tensors += matrix(f"{at}b_proj", heads, hidden, "columns")
    tensors += vector(f"{at}A_log", heads, fp32=True) + vector(f"{at}dt_bias", width, fp32=True)
    tensors += vector(f"{at}o_norm.weight", dim, split="whole")
    tensors += matrix(f"{at}o_proj", hidden, width, "rows")
    mixer = Recurrent(
        family="kda",
        conv_channels=3 * width,
        conv_kernel=kernel,
        heads=heads,
        state_elements=width * dim,
        state_dtype="fp32",
    )
    return Mixed(mixer, tuple(tensors))


class _DeltaSizes(NamedTuple):
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int


def _delta_sizes(keys: Keys, hidden: int) -> _DeltaSizes:
    """Heads and widths; unsaid ones follow OLMo-Hybrid's rule: 3/4 of hidden to the keys, values twice as wide."""
    key_heads = keys.integer("linear_num_key_heads") or keys.need("num_attention_heads")
    value_heads = keys.integer("linear_num_value_heads") or keys.need("num_attention_heads")
    key_dim = keys.integer("linear_key_head_dim") or 3 * hidden // (4 * key_heads)
    return _DeltaSizes(key_heads, value_heads, key_dim, keys.integer("linear_value_head_dim") or 2 * key_dim)
