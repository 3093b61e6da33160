"""Linear attention with fixed decays, and gated linear recurrences: no keys of it look alike, so one function each."""

from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.recurrent.mamba import declared_state_dtype
from kvcalc.catalog.config.recurrent.parts import Mixed, depthwise, dotted, matrix, vector
from kvcalc.errors import KvcalcError
from kvcalc.specs.formats import DTYPE_ALIASES
from kvcalc.specs.model import Recurrent, Tensor


def lightning(keys: Keys, hidden: int, prefix: str = "") -> Mixed:
    """Lightning attention (MiniMax-Text-01 2025; Ring-linear 2025): heads × head_dim × head_dim, in the model's dtype.

    All heads have keys and values of their own, whatever the softmax layers' num_key_value_heads. Ring names its
    gate g_proj and groups its output norm; both cost the same.
    """
    grouped = keys.raw("layer_group_size") is not None
    at = dotted(prefix or ("attention" if grouped else "self_attn"))
    heads = keys.need("num_attention_heads")
    dim = keys.integer("head_dim") or hidden // heads
    width = heads * dim
    if grouped:
        bias, qkv_bias = keys.flag("use_bias"), keys.flag("use_qkv_bias") or keys.flag("use_bias")
        tensors = matrix(f"{at}query_key_value", 3 * width, hidden, "columns", qkv_bias)
        tensors += matrix(f"{at}g_proj", width, hidden, "columns")
        tensors += vector(f"{at}g_norm.weight", width)
        if keys.flag("use_qk_norm"):
            for name in ("query_layernorm", "key_layernorm"):
                tensors += vector(f"{at}{name}.weight", dim, split="whole")
        tensors += matrix(f"{at}dense", hidden, width, "rows", bias)
    else:
        tensors = matrix(f"{at}qkv_proj", 3 * width, hidden, "columns")
        tensors += matrix(f"{at}output_gate", width, hidden, "columns")
        tensors += vector(f"{at}norm.weight", width)
        tensors += matrix(f"{at}out_proj", hidden, width, "rows")
    said = (keys.text("dtype", "torch_dtype") or "bfloat16").removeprefix("torch.")
    mixer = Recurrent(
        family="lightning",
        heads=heads,
        state_elements=width * dim,
        state_dtype=declared_state_dtype(keys) or DTYPE_ALIASES.get(said, said),
    )
    return Mixed(mixer, tuple(tensors))


def short_conv(keys: Keys, hidden: int, prefix: str = "conv") -> Mixed:
    """A gated short convolution (LFM2 2025): nothing but its last K − 1 columns is kept."""
    at = dotted(prefix)
    kernel, bias = keys.need("conv_L_cache"), keys.flag("conv_bias")
    tensors = matrix(f"{at}in_proj", 3 * hidden, hidden, "columns", bias)
    tensors += depthwise(f"{at}conv", hidden, kernel, bias)
    tensors += matrix(f"{at}out_proj", hidden, hidden, "rows", bias)
    return Mixed(Recurrent(family="short_conv", conv_channels=hidden, conv_kernel=kernel), tuple(tensors))


def rg_lru(keys: Keys, hidden: int, prefix: str = "temporal_block") -> Mixed:
    """A real-gated linear recurrent unit (Griffin, De et al. 2024): lru_width fp32 elements, block-diagonal gates."""
    at = dotted(prefix)
    width = keys.integer("lru_width") or hidden
    heads, kernel = keys.need("num_attention_heads"), keys.need("conv1d_width")
    block = width // heads
    tensors: list[Tensor] = []
    for name in ("linear_y", "linear_x"):
        tensors += matrix(f"{at}{name}", width, hidden, "columns", bias=True)
    tensors += depthwise(f"{at}conv_1d", width, kernel, bias=True)
    tensors += vector(f"{at}rg_lru.recurrent_param", width)
    for gate in ("input", "recurrent"):
        tensors += matrix(f"{at}rg_lru.{gate}_gate", block, block, "columns", copies=heads)
        tensors += vector(f"{at}rg_lru.{gate}_gate_bias", heads, block)
    tensors += matrix(f"{at}linear_out", hidden, width, "rows", bias=True)
    mixer = Recurrent(
        family="rg_lru",
        conv_channels=width,
        conv_kernel=kernel,
        heads=heads,
        state_elements=width,
        state_dtype="fp32",
    )
    return Mixed(mixer, tuple(tensors))


def mlstm(keys: Keys, hidden: int, prefix: str = "mlstm_layer") -> Mixed:
    """xLSTM's matrix memory (Beck et al. 2024): per head a matrix, a normaliser and a stabiliser."""
    at = dotted(prefix)
    heads = keys.need("num_heads")
    qk = int(hidden * (keys.number("qk_dim_factor", default=0.5) or 0))
    value = int(hidden * (keys.number("v_dim_factor", default=1.0) or 0))
    if not qk or not value:
        raise KvcalcError("the mLSTM's heads have no width", hint=f"correct {keys.path('qk_dim_factor')}")
    bias = keys.flag("use_bias")
    if keys.text("weight_mode", default="single") == "fused":
        tensors = matrix(f"{at}qkv_opreact", 2 * qk + 2 * value, hidden, "columns", bias)
        tensors += matrix(f"{at}ifgate_preact", 2 * heads, hidden, "columns", bias=True)
    else:
        tensors = []
        for name, size in {"q": qk, "k": qk, "v": value, "ogate_preact": value}.items():
            tensors += matrix(f"{at}{name}", size, hidden, "columns", bias)
        for name in ("igate_preact", "fgate_preact"):
            tensors += matrix(f"{at}{name}", heads, hidden, "columns", bias=True)
    tensors += vector(f"{at}multihead_norm.weight", value)
    if bias:
        tensors += vector(f"{at}multihead_norm.bias", value)
    tensors += matrix(f"{at}out_proj", hidden, value, "rows", bias)
    said = keys.text("inference_state_dtype", default="float32") or "float32"
    mixer = Recurrent(
        family="mlstm",
        heads=heads,
        state_elements=qk * value // heads + qk + heads,
        state_dtype=DTYPE_ALIASES.get(said, said),
    )
    return Mixed(mixer, tuple(tensors))
