"""vLLM: one pool of equal blocks, from which groups of layers take what each sequence needs.

Source: get_kv_cache_configs and what it calls in vllm/v1/core/kv_cache_utils.py (kv_cache_planning.py in 0.33), and
vllm/v1/kv_cache_interface.py for what a sequence takes of each kind of layer
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from kvcalc.engines.capacity import Capacity, Group, Pool, length_of
from kvcalc.engines.pages.dtypes import engine_dtype
from kvcalc.engines.pages.room import admitted, asked
from kvcalc.engines.vllm.compressed import block_bytes, compressed_pages, dealt
from kvcalc.engines.vllm.dtypes import cache_dtype
from kvcalc.engines.vllm.groups import Layer, PageGroup, grouped
from kvcalc.engines.vllm.hybrid import block_of, local_state_bytes, state_page
from kvcalc.engines.vllm.pages import GROWS_WITHOUT_END, Page, mixer_pages, refuse_unserved
from kvcalc.engines.vllm.planning import Planning, in_flight_tokens, planning_of, state_pages
from kvcalc.engines.vllm.report import printed_tokens, rounding_in_words, rule_in_words
from kvcalc.specs.base import replace
from kvcalc.specs.build import build
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import Attention, CompressedAttention, LatentAttention, Mixer, ModelSpec, Recurrent

__all__ = ["admitted", "asked", "capacity"]

BLOCK = 16
LATENT_BLOCK = 64  # FlashMLA's


class Layout(NamedTuple):
    """How a model's layers share one pool, whatever its size: the same on every GPU."""

    rules: Planning
    groups: tuple[PageGroup, ...]
    stages: tuple[frozenset[int], ...]
    fullest: frozenset[int]  # the stage whose part of a block is the largest
    block_bytes: int
    taken: tuple[Group, ...]
    charged_block_bytes: int | None


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int, stages: list[frozenset[int]]) -> Capacity:
    """Blocks, tokens and sequences in `pool_bytes` on the fullest rank; every rank takes the fewest blocks."""
    laid = _laid_out(model, deployment, tuple(stages))
    rules, groups, size = laid.rules, laid.groups, laid.block_bytes
    pool = Pool(
        num_blocks=deployment.num_gpu_blocks_override or (pool_bytes // size if size else 0),
        block_bytes=size,
        groups=laid.taken,
        unusable_blocks=1,
        held_back_blocks=1 if rules.holds_null_block else 0,
        needs_padding=rules.needs_padding,
        charged_block_bytes=laid.charged_block_bytes,
    )
    length = length_of(model, deployment)
    return Capacity(
        pools=(pool,) if groups else (),
        checked=_checked(pool, pool_bytes, groups, laid.stages) if rules.charges_all_stages else None,
        pool_bytes=pool_bytes,
        kv_cache_size_tokens=printed_tokens(pool, length, rules),
        max_model_len=length,
        rule=rule_in_words(rules),
        rounding=rounding_in_words(pool, deployment, rules),
    )


@lru_cache(maxsize=128)
def _laid_out(model: ModelSpec, deployment: Deployment, stages: tuple[frozenset[int], ...]) -> Layout:
    rules = planning_of(deployment.engine_version)
    layers = model_layers(model, deployment, rules)
    compressed = any(isinstance(mixer, CompressedAttention) for group in model.groups for mixer in group.mixers)
    layout = rules.compressed_layout if compressed else "packed"
    groups = tuple(dealt(layers, layout) if compressed else grouped(layers, rules.widest_group))
    hybrid = any(page.kind != "state" for _, page in layers)
    drafts = frozenset(index for index, _ in layers).difference(*stages)
    stages = (*stages[:-1], stages[-1] | drafts)  # draft layers are on the last stage
    # The stage whose part of a block is the largest has the fewest blocks; of equals the one that grows the most.
    fullest = max(stages, key=lambda stage: (_block_bytes(groups, stage, layout), _growing_bytes(groups, stage)))
    return Layout(
        rules=rules,
        groups=groups,
        stages=stages,
        fullest=fullest,
        block_bytes=_block_bytes(groups, fullest, layout),
        taken=tuple(_taken(group, fullest, deployment, rules, hybrid) for group in groups),
        charged_block_bytes=_block_bytes(groups, fullest, "tuples") if compressed and rules.charges_tuples else None,
    )


def model_layers(model: ModelSpec, deployment: Deployment, rules: Planning) -> list[Layer]:
    """Every layer that keeps something, with its page. Draft layers follow the last, where they are used."""
    every = [(index, mixer) for group in model.groups for index in group.layers for mixer in group.mixers]
    every.sort(key=lambda layer: layer[0])
    if deployment.num_speculative_tokens:
        drafts = [mixer for group in model.mtp for _ in group.layers for mixer in group.mixers]
        every.extend(enumerate(drafts, start=every[-1][0] + 1 if every else 0))
    mixers = [_as_planned(mixer, rules) for _, mixer in every]
    for mixer in mixers:
        refuse_unserved(mixer)
    dtype, model_dtype = cache_dtype(model, deployment), engine_dtype(model, deployment)
    tp = deployment.tensor_parallel_size
    recurrent = [mixer for mixer in mixers if isinstance(mixer, Recurrent)]
    state = max((local_state_bytes(mixer, model, deployment, model_dtype) for mixer in recurrent), default=0)
    default = LATENT_BLOCK if any(isinstance(mixer, LatentAttention) for mixer in mixers) else BLOCK
    block = block_of(mixers, deployment.block_size or default, state, dtype, tp)
    of = {id(mixer): mixer for mixer in mixers}  # equal layers share one mixer
    own = {key: _pages(mixer, dtype, tp, block) for key, mixer in of.items()}
    pages = [own[id(mixer)] for mixer in mixers]
    layers: list[Layer] = []
    for (index, _), mixer, found in zip(every, mixers, pages, strict=True):
        if isinstance(mixer, Recurrent):
            layers.append((index, state_page(local_state_bytes(mixer, model, deployment, model_dtype))))
        layers.extend((index, page) for page in found)
    return layers


def _pages(mixer: Mixer, dtype: str, tp: int, block: int) -> list[Page]:
    if isinstance(mixer, Recurrent):
        return []  # its page depends on everyone else's
    if isinstance(mixer, CompressedAttention):
        return compressed_pages(mixer, dtype)
    return mixer_pages(mixer, dtype, tp, block)


def _as_planned(mixer: Mixer, rules: Planning) -> Mixer:
    if rules.windows_as_full and isinstance(mixer, Attention) and mixer.window is not None:
        return replace(mixer, window=None)
    if rules.expanded_head is not None and isinstance(mixer, LatentAttention):
        width = rules.expanded_head or mixer.nope_head_dim + mixer.rope_head_dim
        heads = mixer.query_heads
        return Attention(query_heads=heads, kv_heads=heads, head_dim=width, v_head_dim=width)
    return mixer


def _checked(pool: Pool, given: int, groups: Sequence[PageGroup], stages: Sequence[frozenset[int]]) -> Pool | None:
    """The pool as if one stage held the layers of all."""
    if len(stages) == 1 or not groups:
        return None
    size = _block_bytes(groups, frozenset[int]().union(*stages))
    return replace(pool, num_blocks=given // size, block_bytes=size)


def _block_bytes(groups: Sequence[PageGroup], stage: frozenset[int], layout: str = "packed") -> int:
    held = [tuple(layer for layer in group if layer[0] in stage) for group in groups]
    return block_bytes([group for group in held if group], layout)


def _growing_bytes(groups: Sequence[PageGroup], stage: frozenset[int]) -> int:
    every = (page for group in groups for index, page in group if index in stage)
    return sum(page.page_bytes for page in every if page.kind in GROWS_WITHOUT_END)


def _taken(group: PageGroup, stage: frozenset[int], deployment: Deployment, rules: Planning, hybrid: bool) -> Group:
    """What one sequence takes of a group, and how the stage's part of it grows."""
    page = group[0][1]
    spread = deployment.decode_context_parallel_size if page.kind in GROWS_WITHOUT_END else 1
    here = [own for index, own in group if index in stage]
    held = sum(own.page_bytes for own in here)
    fields: dict[str, object] = {
        "kind": page.kind,
        "layers": len(here),
        "page_bytes": page.page_bytes,
        "block_bytes": held,
    }
    if page.kind == "state":
        fields["fixed_blocks"] = state_pages(deployment, rules, hybrid)
    elif page.kind == "cross":
        assert page.window is not None
        assert page.block_size is not None
        fields["fixed_blocks"] = -(-page.window // page.block_size)
    else:
        assert page.block_size is not None
        fields["block_size"] = page.block_size * spread
        fields |= {"token_bytes": held / page.block_size / spread, "window": page.window}
    if page.kind in ("sliding", "sliding_latent"):
        assert page.window is not None
        fields |= {"most_tokens": page.window - 1 + in_flight_tokens(deployment, rules), "extra_blocks": 1}
    elif page.kind == "chunked":
        assert page.window is not None
        fields["most_tokens"] = page.window + in_flight_tokens(deployment, rules)
    return build(Group, fields)
