"""Mixers and MLP of one layer of a GGUF: from llama.cpp's keys, and from which tensors the layer has."""

from collections.abc import Mapping
from typing import Any

from kvcalc.catalog.headers.gguf_file import tables
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption
from kvcalc.specs.model import Attention, DenseMlp, Indexer, LatentAttention, Mixer, Mlp, MoeMlp, Recurrent

Shapes = Mapping[str, tuple[int, ...]]  # of a layer's tensors, by name without the layer
LARGEST = 10**9


class Facts:
    """The keys of one architecture; a key may hold one number or one for each layer."""

    def __init__(self, architecture: str, metadata: Mapping[str, Any]) -> None:
        self.architecture = architecture
        self._metadata = metadata

    def raw(self, key: str) -> Any:
        return self._metadata.get(f"{self.architecture}.{key}")

    def integer(self, key: str, layer: int = 0, most: int = LARGEST) -> int | None:
        """A whole number, of this layer where there is one for each; None where the file says nothing."""
        value = self.raw(key)
        if isinstance(value, list):
            if layer >= len(value):
                raise KvcalcError(f"{self.architecture}.{key} has no entry for layer {layer}", hint="is it damaged?")
            value = value[layer]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise KvcalcError(f"{self.architecture}.{key} is {str(value)[:40]}", hint="is the file damaged?")
        return value

    def need(self, key: str, layer: int = 0, most: int = LARGEST) -> int:
        value = self.integer(key, layer, most)
        if not value:
            raise KvcalcError(f"the GGUF has no {self.architecture}.{key}", hint="is it a language model's?")
        return value

    def count(self, key: str, layer: int = 0) -> int:
        return self.integer(key, layer) or 0

    def heads(self, layer: int) -> tuple[int, int, int]:
        """Query heads, key-value heads and their width in a layer; zeros where it has no attention."""
        heads = self.count("attention.head_count", layer)
        given = self.integer("attention.head_count_kv", layer)
        kv = heads if given is None else given
        if not heads or not kv:
            return 0, 0, 0
        width = self.count("attention.key_length_swa", layer) if self.window(layer) else 0
        width = width or self.count("attention.key_length", layer) or self.need("embedding_length") // heads
        return heads, kv, width

    def window(self, layer: int) -> int | None:
        """The window of a layer; None: full attention."""
        size = self.count("attention.sliding_window", layer)
        rule = tables()["windows"].get(self.architecture)
        if not size:
            size = rule.get("chunk", 0) if rule else 0
        if not size:
            return None
        pattern = self.raw("attention.sliding_window_pattern")
        if isinstance(pattern, list):
            return size if layer < len(pattern) and pattern[layer] else None
        every = pattern if isinstance(pattern, int) else rule["every"] if rule else None
        if every is None:
            raise KvcalcError(
                f"{self.architecture}.attention.sliding_window is set, but not which layers have it",
                hint="give the model's config.json or its Hub id",
            )
        if every == 0:
            return None
        full = layer % every == 0 if rule and rule.get("first") else layer % every == every - 1
        return None if full else size

    def assumptions(self) -> tuple[Assumption, ...]:
        """The pattern of windows, where the file leaves it to the program."""
        rule = tables()["windows"].get(self.architecture)
        if rule is None or self.raw("attention.sliding_window_pattern") is not None:
            return ()
        if not rule.get("chunk") and not self.count("attention.sliding_window"):
            return ()
        why = "the file does not say which layers have a window: as llama.cpp has it for this architecture"
        value = f"1 layer of {rule['every']} is full" if rule["every"] else "none: the window is not used"
        return (Assumption(name="sliding_window_pattern", value=value, why=why),)


def layer_of(shapes: Shapes, facts: Facts, layer: int) -> tuple[tuple[Mixer, ...], Mlp | None]:
    """What the layer keeps for each sequence, and its MLP."""
    mixers: list[Mixer] = []
    if "attn_kv_a_mqa.weight" in shapes:
        mixers.append(_latent(facts, layer))
    elif (
        any(name in shapes for name in ("attn_q.weight", "attn_qkv.weight", "attn_k.weight")) and facts.heads(layer)[0]
    ):
        mixers.append(_attention(facts, layer))
    if (state := _recurrent(shapes, facts, layer)) is not None:
        # A fused qkv beside a state is the state's own projection (gated delta nets), not attention.
        own = "ssm_beta.weight" in shapes or "ssm_ba.weight" in shapes or "ssm_conv1d_q.weight" in shapes
        mixers = [state] if own else [*mixers, state]
    return tuple(mixers), _mlp(shapes, facts)


def _attention(facts: Facts, layer: int) -> Attention:
    heads, kv, width = facts.heads(layer)
    window = facts.window(layer)
    value = facts.count("attention.value_length_swa", layer) if window else 0
    shared = facts.count("attention.shared_kv_layers")
    return Attention(
        query_heads=heads,
        kv_heads=kv,
        head_dim=width,
        v_head_dim=value or facts.count("attention.value_length", layer) or width,
        window=window,
        chunked=facts.architecture == "llama4",
        owns_cache=layer < facts.need("block_count") - shared,
    )


def _latent(facts: Facts, layer: int) -> LatentAttention:
    rope = facts.count("rope.dimension_count", layer)
    width = facts.integer("attention.key_length_mla", layer) or facts.need("attention.key_length", layer)
    indexer = None
    if facts.count("attention.indexer.top_k"):
        indexer = Indexer(
            heads=facts.need("attention.indexer.head_count"),
            head_dim=facts.need("attention.indexer.key_length"),
            top_k=facts.need("attention.indexer.top_k"),
        )
    return LatentAttention(
        query_heads=facts.need("attention.head_count", layer),
        kv_lora_rank=facts.need("attention.kv_lora_rank"),
        rope_head_dim=rope,
        nope_head_dim=max(1, width - rope),
        v_head_dim=facts.integer("attention.value_length_mla", layer) or facts.need("attention.value_length", layer),
        q_lora_rank=facts.integer("attention.q_lora_rank") or None,
        indexer=indexer,
    )


def _recurrent(shapes: Shapes, facts: Facts, layer: int) -> Recurrent | None:
    hidden = facts.need("embedding_length")
    if "shortconv.conv.weight" in shapes:
        return Recurrent(family="short_conv", conv_channels=hidden, conv_kernel=facts.need("shortconv.l_cache"))
    if "time_mix_key.weight" in shapes:
        size = facts.need("wkv.head_size")
        shifts = facts.integer("token_shift_count") or 2
        return Recurrent(family="rwkv", heads=hidden // size, state_elements=hidden * size + shifts * hidden)
    if "ssm_conv1d_q.weight" in shapes:
        heads, width = facts.need("attention.head_count", layer), facts.need("kda.head_dim")
        return Recurrent(
            family="kda", conv_channels=3 * heads * width, conv_kernel=facts.need("ssm.conv_kernel"),
            heads=heads, state_elements=heads * width * width,
        )  # fmt: skip
    if "ssm_conv1d.weight" not in shapes:
        return None
    delta = "ssm_beta.weight" in shapes or "ssm_ba.weight" in shapes
    family = "gated_delta_net" if delta else "mamba1" if "ssm_x.weight" in shapes else "mamba2"
    return Recurrent(
        family=family,
        conv_channels=shapes["ssm_conv1d.weight"][0],
        conv_kernel=facts.need("ssm.conv_kernel"),
        heads=0 if family == "mamba1" else facts.count("ssm.time_step_rank"),
        state_elements=facts.need("ssm.inner_size") * facts.need("ssm.state_size"),
    )


def _mlp(shapes: Shapes, facts: Facts) -> Mlp | None:
    down = shapes.get("ffn_down_exps.weight")
    if down is not None and len(down) == 3:
        shared = shapes.get("ffn_down_shexp.weight")
        return MoeMlp(
            experts=down[0],
            top_k=facts.need("expert_used_count"),
            expert_width=down[2],
            shared_width=shared[1] if shared else 0,
            gated="ffn_gate_exps.weight" in shapes or "ffn_gate_up_exps.weight" in shapes,
        )
    up, down = shapes.get("ffn_up.weight"), shapes.get("ffn_down.weight")
    if up is None or down is None or len(down) < 2:
        return None
    fused = up[0] == 2 * down[1]  # gate and up in one
    return DenseMlp(width=down[1], gated=fused or "ffn_gate.weight" in shapes)
