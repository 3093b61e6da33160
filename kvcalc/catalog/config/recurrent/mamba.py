"""Selective state spaces: Mamba-1 (Gu & Dao 2023) and Mamba-2 (Dao & Gu 2024), as hybrids spell their keys.

Mamba-1 keeps d_inner × d_state elements a layer and K − 1 columns of d_inner channels; Mamba-2 keeps
heads × head_dim × d_state, and its convolution also runs over B and C of every group.
"""

from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.recurrent.parts import Mixed, depthwise, dotted, matrix, vector
from kvcalc.errors import KvcalcError
from kvcalc.specs.formats import DTYPE_ALIASES, ELEMENT_BITS
from kvcalc.specs.model import Recurrent

STATE = ("mamba_d_state", "ssm_state_size", "state_size")
KERNEL = ("mamba_d_conv", "conv_kernel", "conv_dimension")
EXPAND = ("mamba_expand", "expand", "expansion_factor")
HEADS = ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
HEAD_DIM = ("mamba_head_dim", "mamba_d_head", "mamba_headdim")
GROUPS = ("mamba_n_groups", "n_groups", "mamba_ngroups", "ngroups")
CONV_BIAS = ("mamba_conv_bias", "use_conv_bias")
RANK = ("mamba_dt_rank", "time_step_rank")
PROJECTION_BIAS = ("use_bias", "mamba_proj_bias", "add_bias_linear")


def declared_state_dtype(keys: Keys) -> str | None:
    """The dtype of the state that the config asks for, by kvcalc's name; None: the engine's rule."""
    said = keys.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype")
    if said in (None, "auto"):
        return None
    name = DTYPE_ALIASES.get(str(said).removeprefix("torch."), str(said))
    if name not in ELEMENT_BITS:
        raise KvcalcError(
            f"the recurrent state's dtype is {said!r}, which kvcalc does not know",
            hint="mamba_ssm_dtype is one of float32, bfloat16, float16",
        )
    return name


def is_mamba2(keys: Keys) -> bool:
    """Mamba-2 has groups or heads with a width of their own; Zamba's Mamba-1 has heads and neither."""
    return any(keys.raw(name) is not None for name in (*HEAD_DIM, *GROUPS, "mamba_d_ssm"))


def mamba1(keys: Keys, hidden: int, prefix: str = "", inner_norms: bool = False) -> Mixed:
    """A Mamba-1 layer. `inner_norms`: dt, B and C are normalised with weights (Jamba).

    A purely recurrent model calls d_inner its intermediate_size, whatever its `expand` says; in a hybrid that key is
    the MLP's width, and d_inner is mamba_expand × hidden.
    """
    at = dotted(prefix or _module(keys))
    state, kernel = keys.need(*STATE), keys.need(*KERNEL)
    inner = None if _hybrid(keys) else keys.integer("intermediate_size")
    inner = inner or _expanded(keys, hidden)
    rank = _rank(keys, hidden)
    heads = keys.integer("n_mamba_heads") or 0
    bias = keys.flag(*PROJECTION_BIAS)
    tensors = matrix(f"{at}in_proj", 2 * inner, hidden, "columns", bias)
    tensors += depthwise(f"{at}conv1d", inner, kernel, keys.flag(*CONV_BIAS, default=True))
    if heads:  # Zamba: every head is a Mamba of its own
        width = inner // heads
        tensors += matrix(f"{at}x_proj_weight", rank + 2 * state, width, "columns", copies=heads)
        tensors += matrix(f"{at}dt_proj_weight", width, rank, "columns", copies=heads)
        tensors += vector(f"{at}dt_proj_bias", heads, width)
        tensors += vector(f"{at}A_log", heads, width, state) + vector(f"{at}D", heads, width)
    else:
        tensors += matrix(f"{at}x_proj", rank + 2 * state, inner, "rows")
        tensors += matrix(f"{at}dt_proj", inner, rank, "columns", bias=True)
        tensors += vector(f"{at}A_log", inner, state) + vector(f"{at}D", inner)
    if inner_norms:
        sizes = {"dt_layernorm": rank, "b_layernorm": state, "c_layernorm": state}
        for name, size in sizes.items():
            tensors += vector(f"{at}{name}.weight", size, split="whole")
    tensors += matrix(f"{at}out_proj", hidden, inner, "rows", bias)
    mixer = Recurrent(
        family="mamba1",
        conv_channels=inner,
        conv_kernel=kernel,
        heads=heads,
        state_elements=inner * state,
        state_dtype=declared_state_dtype(keys),
    )
    return Mixed(mixer, tuple(tensors))


def mamba2(keys: Keys, hidden: int, prefix: str = "") -> Mixed:
    """A Mamba-2 layer: d_inner = heads × head_dim, which need not be expand × hidden."""
    at = dotted(prefix or _module(keys))
    state, kernel, heads = keys.need(*STATE), keys.need(*KERNEL), keys.need(*HEADS)
    groups = keys.integer(*GROUPS, default=1) or 1
    inner = _inner(keys, hidden, heads)
    channels = inner + 2 * groups * state
    declared = keys.integer("mamba_d_ssm")
    bias = keys.flag(*PROJECTION_BIAS)
    said = declared_state_dtype(keys)
    tensors = matrix(f"{at}in_proj", inner + channels + heads, hidden, "columns", bias)
    tensors += depthwise(f"{at}conv1d", channels, kernel, keys.flag(*CONV_BIAS, default=True))
    tensors += vector(f"{at}dt_bias", heads) + vector(f"{at}D", heads)
    # A checkpoint whose config asks for an fp32 state keeps the decays in fp32 too (Nemotron-3: published bytes).
    tensors += vector(f"{at}A_log", heads, fp32=said == "fp32")
    if keys.flag("mamba_rms_norm", default=True):
        tensors += vector(f"{at}norm.weight", inner)
    out_bias = keys.flag("projectors_bias") if keys.raw("projectors_bias") is not None else bias
    tensors += matrix(f"{at}out_proj", hidden, inner, "rows", out_bias)
    mixer = Recurrent(
        family="mamba2",
        conv_channels=channels,
        conv_kernel=kernel,
        heads=heads,
        state_elements=inner * state,
        state_dtype=said,
        groups=groups,
        group_channels=2 * state,
        declared_conv_channels=declared + 2 * groups * state if declared not in (None, inner) else 0,
    )
    return Mixed(mixer, tuple(tensors))


def plamo2_mamba(keys: Keys, hidden: int, prefix: str = "mixer") -> Mixed:
    """PLaMo-2's Mamba: Mamba-2's heads, Mamba-1's projections of the convolved input, dt, B and C normalised."""
    at = dotted(prefix)
    state, kernel, heads = keys.need(*STATE), keys.need(*KERNEL), keys.need(*HEADS)
    inner = heads * keys.need("hidden_size_per_head")
    rank = max(64, hidden // 16)
    tensors = matrix(f"{at}in_proj", 2 * inner, hidden, "columns")
    tensors += depthwise(f"{at}conv1d", inner, kernel)
    tensors += matrix(f"{at}bcdt_proj", rank + 2 * state, inner, "rows")
    tensors += matrix(f"{at}dt_proj", heads, rank, "columns")
    for name in ("dt_bias", "A_log", "D"):
        tensors += vector(f"{at}{name}", heads, fp32=True)
    for name, size in {"dt": rank, "B": state, "C": state}.items():
        tensors += vector(f"{at}{name}_norm_weight", size, split="whole")
    tensors += matrix(f"{at}out_proj", hidden, inner, "rows")
    mixer = Recurrent(
        family="mamba2", conv_channels=inner, conv_kernel=kernel, heads=heads, state_elements=inner * state
    )
    return Mixed(mixer, tuple(tensors))


def _hybrid(keys: Keys) -> bool:
    """Models that have other layers too prefix Mamba's keys."""
    return keys.raw("mamba_d_state") is not None


def _module(keys: Keys) -> str:
    return "mamba" if _hybrid(keys) else "mixer"


def _rank(keys: Keys, hidden: int) -> int:
    if any(keys.raw(name) == "auto" for name in RANK):
        return -(-hidden // 16)
    return keys.integer(*RANK) or -(-hidden // 16)


def _inner(keys: Keys, hidden: int, heads: int) -> int:
    """Heads × head width; a width of "auto" is what divides mamba_d_ssm, or expand × hidden, into the heads."""
    # A hybrid's head_dim is its attention's: only a purely recurrent model (num_heads) means the state's by it.
    names = (*HEAD_DIM, "head_dim") if keys.raw("num_heads") is not None else HEAD_DIM
    name = next((name for name in names if keys.raw(name) not in (None, "auto")), None)
    if name:
        return heads * keys.need(name)
    return keys.integer("mamba_d_ssm") or _expanded(keys, hidden)


def _expanded(keys: Keys, hidden: int) -> int:
    return int((keys.number(*EXPAND, default=2) or 2) * hidden)
