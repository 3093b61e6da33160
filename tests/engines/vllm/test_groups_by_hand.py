"""How vLLM deals layers into groups and what it prints of them, worked out by hand from its planner's rules."""

from fractions import Fraction

import pytest
from engines.models import GEMMA_3_27B, QWEN3_5_27B, compressed, gqa, model

from kvcalc.engines import capacity
from kvcalc.engines.capacity import Group, Pool
from kvcalc.engines.vllm.compressed import least_padding
from kvcalc.engines.vllm.groups import split
from kvcalc.engines.vllm.pages import Page, mixer_pages, token_bytes
from kvcalc.engines.vllm.planning import planning_of
from kvcalc.engines.vllm.report import printed_tokens
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import CrossAttention, Indexer, LayerGroup
from kvcalc.units import GIB

FULL, SLIDING = (Page(kind=kind, page_bytes=8, block_size=16) for kind in ("full", "sliding"))


def vllm(version: str | None = None, **flags: object) -> Deployment:
    return checked(Deployment, {"engine_version": version, **flags})


@pytest.mark.parametrize(
    "full, sliding, widest, sizes",
    [
        # As large as the smallest class, or as the largest where that is below `widest` times the smallest.
        (4, 5, Fraction(5, 4), [4, 3, 2]),
        (5, 6, Fraction(5, 4), [5, 6]),
        (4, 5, Fraction(3, 2), [4, 5]),
        (2, 3, Fraction(3, 2), [2, 2, 1]),
        (2, 8, Fraction(1), [2, 2, 2, 2, 2]),
    ],
)
def test_sizes_of_groups(full: int, sliding: int, widest: Fraction, sizes: list[int]) -> None:
    """_get_kv_cache_groups_uniform_page_size, vllm/v1/core/kv_cache_utils.py."""
    layers = [(index, FULL if index < full else SLIDING) for index in range(full + sliding)]
    assert [len(group) for group in split(layers, widest)] == sizes


@pytest.mark.parametrize(
    "counts, least, size",
    [([43, 21, 20], 21, 22), ([4], 4, 4), ([3, 3], 3, 3), ([12, 3, 9], 3, 3), ([9, 12, 3, 9], 9, 9), ([5, 7], 5, 7)],
)
def test_the_size_that_pads_the_least(counts: list[int], least: int, size: int) -> None:
    """_approximate_gcd: of equals the larger."""
    assert least_padding(counts, least) == size


@pytest.mark.parametrize("version, groups", [("0.22.1", 5), ("0.25", 5), ("0.28", 9), ("0.33", 9)])
def test_groups_of_compressed_attention(version: str, groups: int) -> None:
    """Three layers of ratio 4 and nine of 128: twelve windows, two states of three layers, one state of nine.

    Before `packed` nine layers without end set the number: windows in two groups, one of each state. `packed` goes by
    the class that mixes two sizes, three times: windows in four groups, states in one and in three.
    """
    spec = model((3, compressed(4)), (9, compressed(128)), max_context=65536)
    assert len(capacity(spec, vllm(version, kv_cache_dtype="fp8"), GIB).pools[0].groups) == groups


def test_a_draft_layer_is_on_the_last_stage() -> None:
    """Three layers over two stages: two on the first, one and the draft's on the last."""
    layer = gqa(8, 128)
    spec = replace(model((3, layer)), mtp=(LayerGroup(layers=(3,), mixers=(layer,)),))
    drafted = vllm(pipeline_parallel_size=2, num_speculative_tokens=1)
    assert capacity(spec, drafted, GIB).block_bytes == 2 * 16 * 4096


@pytest.mark.parametrize("version, tokens", [("0.22.1", 20_200), ("0.25", 20_200), ("0.28", 14_428), ("0.33", 14_428)])
def test_printed_tokens_of_compressed_attention(version: str, tokens: int) -> None:
    """A sequence of 1,000: four blocks of 1,000 bytes and three of 300, so five of the first group's, or seven."""
    groups = (
        Group(kind="latent", layers=1, page_bytes=1, block_bytes=1000, block_size=256),
        Group(kind="sliding_latent", layers=1, page_bytes=1, block_bytes=300, block_size=64, most_tokens=100, window=64,
              extra_blocks=1),
    )  # fmt: skip
    pool = Pool(num_blocks=101, block_bytes=1000, groups=groups, charged_block_bytes=2000)
    assert printed_tokens(pool, 1000, planning_of(version)) == tokens


def test_state_pages_in_words() -> None:
    def words(**flags: object) -> str:
        return capacity(QWEN3_5_27B, vllm("0.33", **flags), GIB).rounding

    assert "2 state pages a sequence" in words()
    assert "1 state page a sequence" in words(enable_prefix_caching=False)
    assert "state" not in capacity(GEMMA_3_27B, vllm(), GIB).rounding


def test_an_index_beside_keys_and_values_is_16_bits_wide() -> None:
    pages = mixer_pages(gqa(8, 128, indexer=Indexer(heads=4, head_dim=64, top_k=16)), "bf16", 1, 16)
    assert [(page.kind, page.page_bytes) for page in pages] == [("full", 16 * 4096), ("index", 16 * 64 * 2)]


@pytest.mark.parametrize("tp, heads", [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_cross_attention_divides_its_heads(tp: int, heads: int) -> None:
    mixer = CrossAttention(query_heads=32, kv_heads=8, head_dim=128, source_tokens=1500)
    assert token_bytes(mixer, "bf16", tp) == heads * 2 * 128 * 2
    assert token_bytes(gqa(8, 128), "bf16", tp) == heads * 2 * 128 * 2
