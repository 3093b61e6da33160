"""What a model_type says that its keys cannot: names of tensors, norms, biases, patterns. The *.toml hold the data."""

from typing import Literal

from kvcalc.specs.base import Frozen, field
from kvcalc.specs.model import Category, Split

Switch = bool | str  # fixed, or an expression: see docs/reference/expressions.md
Size = int | str  # likewise


class Extra(Frozen):
    """A tensor beyond the usual ones."""

    name: str
    shape: tuple[Size, ...]
    category: Category
    split: Split = "whole"
    copies: Size = 1
    matmul: bool = False
    buffer: bool = False
    fp32: bool = False
    on: str = "layer"  # which layers have it, an expression in their tags; "model": outside the layers
    when: Switch = True


class State(Frozen):
    """What attention keeps for each sequence beside keys and values: short convolutions on its way."""

    channels: Size
    kernel: Size  # columns kept, and one
    elements: Size = 0


class Pattern(Frozen):
    """Kinds of layer where the config lists none."""

    cycle: tuple[str, ...] = ()  # repeated over the layers; or:
    every: Size = 0  # layers with (i - phase) % every == 0 are of `kind`, the rest are `other`
    phase: Size = -1
    kind: str = "full"
    other: str = "sliding_attention"
    first: tuple[str, ...] = ()  # the first layers, against the above
    last: str = ""  # the last layer, likewise


class Traits(Frozen):
    """How a family names and shapes its tensors. The defaults are Llama's."""

    like: str = ""  # start from another family's traits
    text: str = ""  # model_type of its text decoder, where the nested config does not say its own
    known: bool = True  # False: taken for a model_type that kvcalc has not met
    refuse: str = ""  # why kvcalc does not answer for it
    refuse_if: Switch = True
    assume: str = ""  # what is taken for granted about it, in words
    understood: tuple[str, ...] = ()  # keys that have no part in what kvcalc counts
    defaults: dict[str, int | bool | str] = field(default_factory=dict)  # what absent keys mean, beyond the class's

    sizes: dict[str, str] = field(default_factory=dict)  # sizes with a name, for the table's other expressions
    keys: dict[str, str] = field(default_factory=dict)  # where the decoder's sizes have other keys
    encoder: str = ""  # the traits of the encoder beside it
    encoder_keys: dict[str, str] = field(default_factory=dict)
    cross: str = ""  # every layer's cross-attention
    cross_layer: str = ""  # that of layers that have no other attention (`cross_attention_layers`)
    cross_input: Size = "hidden"  # the width of what it reads
    source: Size = 0  # how many positions it reads
    first_entries: tuple[str, ...] = ()  # keys that hold a list whose first entry is the text decoder's

    layers: str = "model.layers"
    embedding: str = "model.embed_tokens"
    embedding_rows: Size = "vocab"
    embedding_width: Size = "hidden"
    positions: str = ""  # a learned table of positions
    position_length: Size = 0  # its length, where it is not the maximum of the context
    position_offset: int = 0
    head: str = "lm_head"
    head_bias: Switch = False
    head_rows: Size = "vocab"
    final_norm: str = "model.norm"
    norm: Literal["weight", "bias", "none"] = "weight"  # what a norm has: a weight, a bias too, or nothing
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    norms_when: dict[str, str] = field(default_factory=dict)  # of norms that only some models have
    parallel: Switch = False  # attention and MLP side by side

    attention: str = "self_attn"
    q: str = "q_proj"
    k: str = "k_proj"
    v: str = "v_proj"
    o: str = "o_proj"
    qkv: str = ""  # the three in one tensor
    qkv_bias: Switch = "attention_bias"
    k_bias: Switch | None = None  # where keys differ from queries and values
    o_bias: Switch = "attention_bias"
    query_input: Size = "hidden"  # the width attention reads
    attention_outside: bool = False  # attention layers share weights, which stand outside the layers
    q_b: str = "q_b_proj"  # of latent attention with low-rank queries
    q_b_inputs: Size = "q_lora_rank"
    qk_norm: Literal["", "head", "full", "heads"] = ""  # of one head's width, of all heads together, one each
    qk_norm_when: Switch = True
    qk_norm_on: str = ""  # only on this kind of layer
    qk_norm_kind: Literal["weight", "bias", "none", ""] = ""  # as `norm`, where it differs
    q_norm: str = "q_norm"
    k_norm: str = "k_norm"
    gate: Literal["", "q", "full", "head"] = ""  # a gate on attention's output: inside q_proj, or its own matrix
    gate_name: str = "gate_proj"
    gate_when: Switch = True
    value_is_key: Switch = False  # full layers have no v_proj of their own: values are made from k_proj
    full_keys: dict[str, str] = field(default_factory=dict)  # keys that full layers have otherwise
    sliding_keys: dict[str, str] = field(default_factory=dict)
    shared_kv_tensors: bool = True  # layers that read another layer's cache still have k_proj and v_proj

    pattern: Pattern | None = None
    window: Literal["all", "none", "late", "said"] = "none"  # late: from layer max_window_layers on
    window_keys: tuple[str, ...] = ("sliding_window", "sliding_window_size")
    indexed: bool = False  # "full" layers are sparse: an indexer chooses what they read

    recurrent: str = ""  # the recurrent family of its linear, mamba or conv layers
    hybrid: bool = False  # every layer has attention and a recurrent mixer side by side
    state: State | None = None

    mlp: str = "mlp"
    mlp_gate: str = "gate_proj"
    mlp_up: str = "up_proj"
    mlp_down: str = "down_proj"
    mlp_only: str = ""  # the up projection's name where nothing gates it
    mlp_gate_up: str = ""  # gate and up in one tensor
    gated: Switch = True
    mlp_bias: Switch = "mlp_bias"
    width: Size = 0  # the dense MLP's width, where it is not under the usual keys
    width_factor: int = 0  # width = factor × hidden where no key says it
    width_divisor: int = 1  # the key counts gate and up together
    bare: bool = False  # a layer is one mixer or one MLP, never both

    moe: str = "mlp"
    moe_first: Size = 0  # first layers that are dense, where no key says it
    router: str = "gate"
    router_bias: Switch = False
    router_rows: Size = "experts"
    experts: str = "experts.0"  # the first stands for all; "experts" where the checkpoint stacks them in one tensor
    expert_gate: str = ""  # names where they differ from the dense MLP's
    expert_up: str = ""
    expert_down: str = ""
    expert_gate_up: str = ""
    expert_bias: Switch = False
    expert_width: tuple[str, ...] = ()
    expert_input: Size = "routed_expert_hidden_size or hidden"  # what an expert reads and writes
    shared: str = "shared_experts"
    shared_inside: bool = True  # in the experts' module, not beside it
    shared_width: Size | None = None
    shared_gate: str = ""  # a gate on the shared expert: one row
    twice: bool = False  # a layer is two attentions and two dense MLPs beside its experts (LongCat)
    always_moe: bool = False  # every layer is a mixture, whatever keys say
    beside: bool = False  # a dense MLP of its own beside the experts of a layer

    mtp_layers: str = "model.layers"  # where its multi-token-prediction layers are
    mtp_head: bool = False  # each with an embedding and a head of its own
    mtp_dense: bool = False  # with a dense MLP in a model of experts

    extra: tuple[Extra, ...] = ()
