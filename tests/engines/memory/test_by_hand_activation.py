"""vLLM's profile run at its corners: float32, shared workspaces, how far it may be off."""

import pytest
from engines.memory.test_by_hand_budget import BLACKWELL, CARD, LLAMA_8B, MOE, activation

from kvcalc.engines.memory.shape import Encoder, Latents, ProfileShape
from kvcalc.specs.base import replace
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import GIB

LOGITS = 1024 * 128_256 * 4  # bytes of a batch's logits in float32
IMAGES = replace(LLAMA_8B, images=True)


def test_logits_in_float32_are_half_a_copy_more() -> None:
    wide = activation(replace(LLAMA_8B, element_bytes=4))
    assert wide.sampler == int(4.1 * LOGITS + 8192 * (4096 * 4 + 8192))
    assert wide.forward == 8192 * 4 * (3 * 14336 + 3.25 * 4096) + 8192 * 8192
    assert wide.peak.high - wide.peak.value == pytest.approx(0.15 * GIB, abs=2)
    assert wide.peak.value - wide.peak.low == pytest.approx(0.05 * GIB, abs=2)


@pytest.mark.parametrize(
    "shape, version, gpu, below, above",
    [
        (LLAMA_8B, "0.19.0", CARD, 0.05, 0.15),  # as the evidence: dense, on Hopper
        (LLAMA_8B, "0.19.0", BLACKWELL, 0.05, 0.35),
        (MOE, "0.19.0", CARD, 0.05, 0.35),
        (IMAGES, "0.19.0", CARD, 0.14, 0.35),
        (LLAMA_8B, "0.27", CARD, 0.50, 1.30),  # a first start compiles inside it
        (IMAGES, "0.30", BLACKWELL, 0.50, 1.30),
    ],
)
def test_how_far_it_may_be_off(shape: ProfileShape, version: str, gpu: GpuSpec, below: float, above: float) -> None:
    found = activation(replace(shape, dense_width=60_000), version, gpu=gpu).peak
    assert found.value - found.low == pytest.approx(below * GIB, abs=2)
    assert found.high - found.value == pytest.approx(above * GIB, abs=2)


def test_a_small_peak_is_never_below_zero() -> None:
    found = activation(LLAMA_8B, "0.30", max_num_batched_tokens=16, max_num_seqs=1).peak
    assert found.low == 0 < found.value


def test_an_unknown_version_may_sort() -> None:
    """Without a version the high end is the sampler in PyTorch, which holds 9.5 copies."""
    known, unknown = (
        activation(LLAMA_8B, "0.24"), activation(LLAMA_8B, None),  # type: ignore[arg-type]
    )  # fmt: skip
    assert known.peak.high < 9.5 * LOGITS < unknown.peak.high


def test_wide_experts_hold_gate_and_up() -> None:
    """Unquantized on V1: rows of max(w, h), and of max(2 w, h), with w of 1,536 and h of 2,048."""
    wide = replace(MOE, expert_width=1536)
    rows = 8192 * 8 * 2
    assert activation(wide).sampler - activation(MOE).sampler == rows * (2 * 1536 - 2048)
    flags = {"data_parallel_size": 4, "enable_expert_parallel": True}
    gathered = 4 * rows * (2048 + 2 * 1536) + 3 * 8192 * 2048 * 2
    assert activation(wide, **flags).sampler == int(3.6 * 1024 * 128_000 * 4 + 8192 * (2048 * 2 + 8192) + gathered)


def test_experts_and_sparse_attention_share_one_workspace() -> None:
    """What attention reserves before is not held twice: 16 of 128 heads over latents of 512 + 64."""
    sparse = replace(MOE, latents=Latents(query_heads=128, rank=512, rope=64, indexed=True))
    plain, shared = (activation(shape, tensor_parallel_size=8, max_model_len=1) for shape in (MOE, sparse))
    assert plain.sampler - shared.sampler == 8192 * 16 * 576 * 2
    alone, all_of_it = (activation(shape, max_model_len=1) for shape in (MOE, sparse))
    assert alone.sampler - all_of_it.sampler == 8192 * 8 * 2 * 4096  # no more than the experts' own


def test_a_tower_is_profiled_where_images_are_taken() -> None:
    tower = Encoder(hidden=1280, width=3420, gated=True, largest_item_tokens=16_384)
    seen = activation(replace(LLAMA_8B, encoder=tower))
    assert seen.encoder > 0
    assert seen.sampler - activation(LLAMA_8B).sampler == pytest.approx(0.13 * GIB, abs=1)
