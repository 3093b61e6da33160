"""Mixers as operators: what attention and recurrent layers read and compute in a step, on one GPU.

Source: for FLOPs and cached bytes the formulas of `formulas/prefill.py` and `formulas/step.py`, each with its paper;
DeepSeek-AI 2024 (DeepSeek-V2), section 2.1, for absorbed latents, and 2025 (DeepSeek-V3.2) for indexers; Dao and Gu
2024 (Mamba-2), section 2, for states
"""

from collections.abc import Iterable
from typing import Any

from kvcalc.counting.arrays import Quantity, greatest, least
from kvcalc.counting.cache import element_bytes, state_bytes, state_type
from kvcalc.counting.work import Kind, Operator, Step
from kvcalc.formulas.prefill import causal_pairs
from kvcalc.specs.deployment import Layout
from kvcalc.specs.formats import DTYPE_ALIASES
from kvcalc.specs.model import (
    Attention,
    CompressedAttention,
    CrossAttention,
    Indexer,
    LatentAttention,
    LayerGroup,
    ModelSpec,
    Recurrent,
)

# FLOPs of each element of a recurrent state for one token, h = a·h + b·x and y = c·h (Dao and Gu 2024, Mamba-2,
# section 2), a multiply and an add for each of its products.
STATE_FLOPS = 6  # decay, rank-one update, read-out: what the kernel of a step does
# Update and read-out alone, as the lessons count attention's two products and not the softmax between; a judgement.
LESSON_STATE_FLOPS = 4


def attended(start: Quantity, tokens: Quantity, window: Quantity | None = None) -> Quantity:
    """Pairs of (token, earlier token) in causal attention of `tokens` tokens after `start`, each seeing `window` back.

    The lessons' count: half of tokens², the diagonal left out of account.

    Unit: pairs

    >>> attended(0, 100), attended(50, 100), attended(100, 100, window=10)
    (5000.0, 10000.0, 1000.0)
    """
    if window is None:
        return causal_pairs(tokens, start)
    return _below(start + tokens, window) - _below(start, window)


def _below(length: Quantity, window: Quantity) -> Quantity:
    """Pairs over the first `length` tokens: a triangle until the window is full, then a strip."""
    filling = least(length, window)
    return causal_pairs(filling) + window * (length - filling)


def mixer_operators(
    group: LayerGroup, model: ModelSpec, layout: Layout, step: Step, cache_dtype: str, state_dtype: str | None = None
) -> Iterable[Operator]:
    """The operators of the mixers of one layer, projections apart."""
    parts = _Parts(group, model, layout, step, DTYPE_ALIASES.get(cache_dtype, cache_dtype))
    for mixer in group.mixers:
        if isinstance(mixer, Recurrent):
            yield _state(mixer, group, model, layout, step, state_dtype)
        elif isinstance(mixer, Attention):
            yield from parts.attention(mixer)
        elif isinstance(mixer, LatentAttention):
            yield from parts.latent(mixer)
        elif isinstance(mixer, CompressedAttention):
            yield from parts.compressed(mixer)
        else:
            yield from parts.cross(mixer)


class _Parts:
    """What all attention of one layer group shares."""

    def __init__(self, group: LayerGroup, model: ModelSpec, layout: Layout, step: Step, cache_dtype: str) -> None:
        self.count = group.count
        self.dtype = model.dtype
        self.activation = element_bytes(model.dtype)
        self.cache_dtype = cache_dtype
        self.cache = element_bytes(cache_dtype)
        self.tp = layout.tensor_parallel_size
        self.tokens_split = layout.decode_context_parallel_size
        self.step = step

    def heads(self, count: int) -> float:
        return max(1, count / self.tp)

    def attention(self, mixer: Attention) -> Iterable[Operator]:
        heads = self.heads(mixer.query_heads)
        width = mixer.head_dim + mixer.v_head_dim
        per_token = self.heads(mixer.kv_heads) * width * self.cache
        kind = "sparse" if mixer.indexer else mixer.pattern
        limit = mixer.indexer.top_k if mixer.indexer else mixer.window
        if mixer.indexer:
            yield from self._index(mixer.indexer)
        flops, reach = 2 * heads * width, self._reach(limit)
        yield self._decode(
            f"attention ({kind})",
            (per_token, flops),
            reach,
            group_heads=heads / self.heads(mixer.kv_heads),
            head_dim=mixer.head_dim,
            tiled_flops=self.step.decode * flops * reach if limit is None and self.step.several else 0,
        )
        yield self._prefill(f"prefill attention ({kind})", (per_token, flops), limit, head_dim=mixer.head_dim)

    def latent(self, mixer: LatentAttention) -> Iterable[Operator]:
        """Absorbed in decode: every head attends over the latent. Expanded to keys and values in prefill, if at all."""
        heads = self.heads(mixer.query_heads)
        vector = mixer.kv_lora_rank + mixer.rope_head_dim
        absorbed = 2 * heads * (vector + mixer.kv_lora_rank)
        expanded = 2 * heads * (mixer.nope_head_dim + mixer.rope_head_dim + mixer.v_head_dim)
        limit = mixer.indexer.top_k if mixer.indexer else None
        if mixer.indexer:
            yield from self._index(mixer.indexer)
        name = "latent attention" if limit is None else "latent attention (sparse)"
        yield self._decode(name, (vector * self.cache, absorbed), self._reach(limit), "latent_attention")
        flops = absorbed if self.step.absorbed or limit is not None else expanded
        yield self._prefill(f"prefill {name}", (vector * self.cache, flops), limit, head_dim=vector)

    def compressed(self, mixer: CompressedAttention) -> Iterable[Operator]:
        """A window of full vectors; of the history one vector for `ratio` tokens, top-k of them where indexed."""
        heads = self.heads(mixer.query_heads)
        per_token, flops = mixer.head_dim * self.cache, 4 * heads * mixer.head_dim
        yield self._decode("attention (sliding)", (per_token, flops), self._reach(mixer.window))
        yield self._prefill("prefill attention (sliding)", (per_token, flops), mixer.window)
        if not mixer.ratio:
            return
        ratio = mixer.ratio
        limit = mixer.indexer.top_k * ratio if mixer.indexer else None
        if mixer.indexer:
            yield from self._index(mixer.indexer, ratio)
        one = per_token / ratio, flops / ratio
        yield self._decode("attention (compressed)", one, self._reach(limit))
        yield self._prefill("prefill attention (compressed)", one, limit, moved=0)

    def cross(self, mixer: CrossAttention) -> Iterable[Operator]:
        """Over an encoder's output: the same tokens for every row, whatever the context."""
        heads = self.heads(mixer.query_heads)
        per_token = 2 * self.heads(mixer.kv_heads) * mixer.head_dim * self.cache
        flops = 4 * heads * mixer.head_dim
        yield self._decode("cross-attention", (per_token, flops), mixer.source_tokens)
        rows, source = self.step.prefill_rows, mixer.source_tokens
        yield Operator(
            "prefill cross-attention",
            "prefill_attention",
            self.count,
            flops=flops * rows * source,
            cache_bytes=self.step.prompts * source * per_token * least(self.step.tokens, 1),
            activation_bytes=rows * flops / 2 * self.activation,
            compute=self.dtype,
            format=self.cache_dtype,
            rows=rows,
        )

    def _reach(self, limit: int | None) -> Quantity:
        """Cached tokens that one sequence's row attends to, on this rank of a decode-context-parallel group."""
        context = self.step.context / self.tokens_split if self.tokens_split > 1 else self.step.context
        return context if limit is None else least(context, limit)

    def _index(self, indexer: Indexer, ratio: int = 1) -> Iterable[Operator]:
        """The indexer scores every cached token, whole on every rank, to choose what attention reads."""
        per_token = indexer.head_dim * self.cache / ratio
        flops = 2 * indexer.heads * indexer.head_dim / ratio
        yield self._decode("indexer", (per_token, flops), self._reach(None), "indexer")
        yield self._prefill("prefill indexer", (per_token, flops), None, moved=0)

    def _decode(
        self, name: str, each: tuple[float, float], reach: Quantity, kind: Kind = "attention", **own: Any
    ) -> Operator:
        """`each`: bytes and FLOPs of a cached token, and `own`: what this attention says of itself."""
        step, (bytes_per_token, flops_per_token) = self.step, each
        return Operator(
            name,
            kind,
            self.count,
            flops=step.decode_rows * flops_per_token * reach,
            cache_bytes=step.decode * bytes_per_token * reach,
            compute=self.dtype,
            format=self.cache_dtype,
            rows=step.decode_rows,
            context=reach * least(step.decode, 1),
            **own,
        )

    def _prefill(
        self, name: str, each: tuple[float, float], limit: int | None, moved: float | None = None, head_dim: int = 0
    ) -> Operator:
        """`moved`: elements of queries and outputs that one row brings; each costs two FLOPs a pair."""
        step, (bytes_per_token, flops_per_pair) = self.step, each
        moved = flops_per_pair / 2 if moved is None else moved
        walked = step.start + step.tokens
        pairs = attended(step.start, step.tokens, limit) if step.causal else step.tokens * walked
        held = walked if limit is None else least(walked, limit + step.tokens)
        later = step.tokens**2 / 2 if step.causal else 0
        read = greatest(step.start if limit is None else least(step.start, limit), 0)
        return Operator(
            name,
            "prefill_attention",
            self.count,
            flops=step.prompts * flops_per_pair * pairs,
            later_flops=step.prompts * flops_per_pair * later,
            behind_flops=step.prompts * flops_per_pair * greatest(step.tokens * held - later - pairs, 0),
            cache_bytes=step.prompts * bytes_per_token * read,
            activation_bytes=step.prefill_rows * moved * self.activation,
            compute=self.dtype,
            format=self.cache_dtype,
            rows=step.prefill_rows,
            head_dim=head_dim,
        )


def _state(
    mixer: Recurrent, group: LayerGroup, model: ModelSpec, layout: Layout, step: Step, state_dtype: str | None
) -> Operator:
    """A recurrent layer reads and writes its whole state once for each sequence, however many rows that brings."""
    tp = layout.tensor_parallel_size
    flops = STATE_FLOPS * mixer.state_elements + 2 * mixer.conv_channels * mixer.conv_kernel
    sequences = step.decode + step.prompts
    return Operator(
        f"state ({mixer.family})",
        "state",
        group.count,
        flops=step.rows * flops / tp,
        cache_bytes=2 * sequences * state_bytes(mixer, model, state_dtype) / tp,
        compute=model.dtype,
        format=state_type(mixer, model, state_dtype),
        rows=step.rows,
        context=greatest(step.rows_each, step.tokens * least(step.prompts, 1)),
    )
