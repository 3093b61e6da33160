"""Which layouts a model divides by; the refusals are the ones that engines make.

Source: verify_with_parallel_config in vllm/config/model.py (query heads, decode context parallelism), divide in
vllm/distributed/utils.py (widths and vocabulary); that no rank may be idle is a judgement
"""

from functools import lru_cache

from kvcalc.counting.rounding import VOCAB_MULTIPLE, round_up
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Layout
from kvcalc.specs.model import (
    Attention,
    CompressedAttention,
    CrossAttention,
    DenseMlp,
    LatentAttention,
    Mixer,
    ModelSpec,
    MoeMlp,
    Recurrent,
)

USUAL_SIZES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64)


@lru_cache(maxsize=256)
def check_layout(model: ModelSpec, layout: Layout) -> None:
    """Raise KvcalcError with what does not divide, and by what it would."""
    check_stages(model, layout)
    try:
        _check_division(model, layout)
    except KvcalcError as error:
        fitting = [size for size in USUAL_SIZES if _divides(model, layout, size)]
        hint = f"tensor-parallel sizes that {model.name} divides by: {', '.join(map(str, fitting))}"
        raise KvcalcError(error.message, hint=hint) from None
    _check_context_parallel([mixer for group in model.groups for mixer in group.mixers], layout)
    _check_experts(model, layout)


def _check_division(model: ModelSpec, layout: Layout) -> None:
    for group in model.groups:
        for mixer in group.mixers:
            _check_heads(mixer, layout.tensor_parallel_size)
    _check_widths(model, layout)


def _divides(model: ModelSpec, layout: Layout, size: int) -> bool:
    try:
        _check_division(model, replace(layout, tensor_parallel_size=size))
    except KvcalcError:
        return False
    return True


def check_stages(model: ModelSpec, layout: Layout) -> None:
    """Raise KvcalcError where a pipeline stage would have no layer."""
    stages = layout.pipeline_parallel_size
    if stages > model.layers:
        raise KvcalcError(
            f"pipeline-parallel size {stages} exceeds the {model.layers} layers of {model.name}",
            hint=f"use {model.layers} stages or fewer",
        )


def _must_divide(what: str, number: int, tp: int) -> None:
    if number % tp:
        raise KvcalcError(f"{number} {what} do not divide by tensor-parallel size {tp}", hint="")


def _check_heads(mixer: Mixer, tp: int) -> None:
    if isinstance(mixer, Recurrent):
        if mixer.heads:
            _must_divide(f"{mixer.family} heads", mixer.heads, tp)
        return
    _must_divide("query heads", mixer.query_heads, tp)
    if isinstance(mixer, Attention | CrossAttention) and mixer.kv_heads % tp and tp % mixer.kv_heads:
        raise KvcalcError(
            f"{mixer.kv_heads} KV heads neither divide by tensor-parallel size {tp} nor repeat evenly in it", hint=""
        )


def _check_context_parallel(mixers: list[Mixer], layout: Layout) -> None:
    dcp, tp = layout.decode_context_parallel_size, layout.tensor_parallel_size
    if dcp == 1:
        return
    if tp % dcp:
        raise KvcalcError(
            f"decode-context-parallel size {dcp} does not divide tensor-parallel size {tp}",
            hint="it reuses the tensor-parallel ranks: choose a divisor",
        )
    for mixer in mixers:
        if isinstance(mixer, Recurrent | CompressedAttention) or getattr(mixer, "window", None) is not None:
            raise KvcalcError(
                "decode context parallelism does not take windowed or recurrent layers",
                hint="leave --decode-context-parallel-size out",
            )
        if isinstance(mixer, Attention) and tp // mixer.kv_heads < dcp:
            raise KvcalcError(
                f"decode-context-parallel size {dcp} needs {dcp} ranks for each of the {mixer.kv_heads} KV heads; "
                f"tensor-parallel size {tp} gives {tp // mixer.kv_heads}",
                hint=f"use --tensor-parallel-size {mixer.kv_heads * dcp} or more",
            )
        assert not isinstance(mixer, LatentAttention) or tp >= dcp


def _check_widths(model: ModelSpec, layout: Layout) -> None:
    tp = layout.tensor_parallel_size
    rows = round_up(model.vocab, VOCAB_MULTIPLE)
    _must_divide(f"vocabulary rows, padded to a multiple of {VOCAB_MULTIPLE},", rows, tp)
    for group in model.groups:
        if isinstance(group.mlp, DenseMlp):
            _must_divide("columns of the MLP", group.mlp.width, tp)
        if isinstance(group.mlp, MoeMlp):
            _must_divide("columns of the shared experts", group.mlp.shared_width, tp)
            if not layout.enable_expert_parallel:
                _must_divide("columns of an expert", group.mlp.expert_width, layout.expert_slices)


def _check_experts(model: ModelSpec, layout: Layout) -> None:
    moe = [group.mlp for group in model.groups if isinstance(group.mlp, MoeMlp)]
    if layout.enable_expert_parallel and not moe:
        raise KvcalcError(f"{model.name} has no experts to spread", hint="leave --enable-expert-parallel out")
    if layout.num_redundant_experts and not layout.enable_expert_parallel:
        raise KvcalcError("redundant experts need expert parallelism", hint="add --enable-expert-parallel")
    ranks = layout.tensor_parallel_size * layout.data_parallel_size
    for mlp in moe:
        experts = mlp.experts + layout.num_redundant_experts
        if layout.enable_expert_parallel and ranks > experts:
            raise KvcalcError(
                f"{ranks} expert-parallel ranks for {experts} experts: some would be idle",
                hint="use fewer GPUs or more --num-redundant-experts",
            )
