"""What a model_type says that its keys cannot: names of tensors, norms, biases, patterns. Data in traits.toml."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from kvcalc.catalog.keys import Keys
from kvcalc.specs.base import Frozen
from kvcalc.specs.model import Category, Split

Switch = bool | str  # fixed, or the key that says it ("!key": its opposite)
Size = int | str  # a number, or a product of names: "heads*head_dim", "hidden", any key of the config


class Extra(Frozen):
    """A tensor beyond the usual ones."""

    name: str
    shape: tuple[Size, ...]
    category: Category
    split: Split = "whole"
    copies: Size = 1
    matmul: bool = False
    buffer: bool = False
    on: tuple[str, ...] = ("layer",)  # kinds of layer that have it, or "model": outside the layers
    when: Switch = True


class Pattern(Frozen):
    """Which layers are of the `full` kind where no list says it: those with (i - phase) % every == 0."""

    every: Size
    phase: int = -1  # -1: the last of each `every` layers
    last: bool = False  # the last layer too
    other: str = "sliding_attention"


class Traits(Frozen):
    """How a family names and shapes its tensors. The defaults are Llama's."""

    like: str = ""  # start from another family's traits
    text: str = ""  # model_type of a nested text config that does not say its own
    known: bool = True  # False: taken for a model_type that kvcalc has not met

    layers: str = "model.layers"
    embedding: str = "model.embed_tokens"
    positions: str = ""  # a learned table of positions
    position_offset: int = 0
    head: str = "lm_head"
    head_bias: Switch = False
    final_norm: str = "model.norm"
    norm: Literal["weight", "bias", "none"] = "weight"  # what a norm has: a weight, a bias too, or nothing
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    parallel: Switch = False  # attention and MLP side by side

    attention: str = "self_attn"
    q: str = "q_proj"
    k: str = "k_proj"
    v: str = "v_proj"
    o: str = "o_proj"
    qkv: str = ""  # the three in one tensor
    qkv_bias: Switch = "attention_bias"
    o_bias: Switch = "attention_bias"
    qk_norm: Literal["", "head", "full", "heads"] = ""  # of one head's width, of all heads together, one each
    qk_norm_when: Switch = True
    q_norm: str = "q_norm"
    k_norm: str = "k_norm"
    gate: Literal["", "q", "full", "head"] = ""  # a gate on attention's output: inside q_proj, or its own matrix
    gate_name: str = "gate_proj"

    pattern: Pattern | None = None
    window: Literal["pattern", "all", "none", "late"] = "none"  # late: from layer max_window_layers on

    mlp: str = "mlp"
    mlp_gate: str = "gate_proj"
    mlp_up: str = "up_proj"
    mlp_down: str = "down_proj"
    mlp_gate_up: str = ""  # gate and up in one tensor
    gated: bool = True
    mlp_bias: Switch = "mlp_bias"
    width: tuple[str, ...] = ()  # keys of the MLP's width before the usual ones

    extra: tuple[Extra, ...] = ()


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = files("kvcalc.catalog.families").joinpath("traits.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _merged(model_type: str) -> dict[str, Any]:
    entry = dict(_table()[model_type])
    base = entry.get("like", "")
    return {**_merged(base), **entry} if base else entry


@cache
def traits_of(model_type: str) -> Traits:
    """The traits of a model_type; those of a plain decoder, marked unknown, where the table has none."""
    if model_type not in _table():
        return Traits(known=False)
    return Traits.model_validate(_merged(model_type))


def switch(keys: Keys, value: Switch) -> bool:
    """Whether a trait is on, where it may be up to a key of the config ("!key": up to its opposite)."""
    if isinstance(value, bool):
        return value
    return not keys.flag(value[1:]) if value.startswith("!") else keys.flag(value)


def integer_of(keys: Keys, value: Size, scope: Mapping[str, int] | None = None) -> int:
    """A size: a number, a name in scope, a key of the config, or a product of these ("heads*head_dim")."""
    if isinstance(value, int):
        return value
    total = 1
    for factor in value.split("*"):
        known = int(factor) if factor.isdecimal() else (scope or {}).get(factor)
        total *= keys.count(factor) if known is None else known
    return total
