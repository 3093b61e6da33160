"""What each rank holds."""

import pytest
from engines.models import model
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.models import load_model
from kvcalc.counting.layout import leaves_node, local_tensor, pipeline_stages, rank_weights
from kvcalc.counting.operators.experts import USUAL, padded_shape
from kvcalc.counting.weights import counted_weight_bytes
from kvcalc.engines import loaded_weight_bytes
from kvcalc.specs.base import replace
from kvcalc.specs.build import build
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment, Layout
from kvcalc.specs.formats import BF16, MXFP4
from kvcalc.specs.model import Attention, LayerGroup, ModelSpec, MoeMlp, Tensor
from kvcalc.units import GB, GIB

HEADS = Attention(query_heads=32, kv_heads=8, head_dim=128, v_head_dim=128)
EXPERTS = MoeMlp(experts=32, top_k=4, expert_width=2880)


def layer(*tensors: Tensor, mlp: MoeMlp | None = None) -> LayerGroup:
    return LayerGroup(layers=tuple(range(4)), mixers=(HEADS,), mlp=mlp, tensors=tensors)


def local(tensor: Tensor, mlp: MoeMlp | None = None, **sizes: object) -> tuple[int, tuple[int, ...]]:
    return local_tensor(tensor, layer(tensor, mlp=mlp), checked(Layout, sizes))


@pytest.mark.parametrize(
    "split, shape, tp, want",
    [
        ("columns", (4096, 4096), 4, (1024, 4096)),
        ("rows", (4096, 14336), 4, (4096, 3584)),
        ("kv", (1024, 4096), 4, (256, 4096)),
        ("kv", (1024, 4096), 16, (128, 4096)),  # eight heads: two ranks keep the same one
        ("whole", (4096,), 8, (4096,)),
        ("vocab", (50257, 1600), 8, (6288, 1600)),  # 50,304 = 786 × 64 rows
        ("columns", (4096,), 4, (1024,)),  # a bias divides as its matrix's outputs
        ("rows", (4096,), 4, (4096,)),
    ],
)
def test_how_a_tensor_divides(split: str, shape: tuple[int, ...], tp: int, want: tuple[int, ...]) -> None:
    tensor = build(Tensor, {"name": "w", "shape": shape, "category": "attention", "split": split})
    assert local(tensor, tensor_parallel_size=tp) == (1, want)


def test_experts_are_cut_or_dealt() -> None:
    down = Tensor(name="down", shape=(4096, 1536), category="experts", split="rows", copies=128)
    mlp = MoeMlp(experts=128, top_k=8, expert_width=1536)
    assert local(down, mlp, tensor_parallel_size=4) == (128, (4096, 384))
    sizes = {"tensor_parallel_size": 4, "data_parallel_size": 2, "enable_expert_parallel": True}
    assert local(down, mlp, **sizes) == (16, (4096, 1536))
    assert local(down, mlp, **sizes, num_redundant_experts=4) == (17, (4096, 1536))  # 132 over 8, rounded up


def test_experts_are_as_wide_as_their_kernels_take_them() -> None:
    # gpt-oss: 2,880 becomes 2,944 (a multiple of 128) and 3,072 (of 256); half of 2,880 becomes 1,536
    both = Tensor(name="gate_up", shape=(5760, 2880), category="experts", split="columns", copies=32, format=MXFP4)
    down = Tensor(name="down", shape=(2880, 2880), category="experts", split="rows", copies=32, format=MXFP4)
    (mxfp4,) = USUAL
    assert padded_shape(local(both, EXPERTS)[1], "columns", 2, mxfp4) == (2 * 2944, 3072)
    assert padded_shape(local(down, EXPERTS, tensor_parallel_size=2)[1], "rows", 1, mxfp4) == (3072, 1536)


@pytest.mark.parametrize(
    "name, tp, gib",
    [
        # "Model loading took … GiB" of vLLM 0.11 to 0.19 on H100s, in 16 bits
        ("llama-3.1-8b", 1, 14.99), ("llama-3.1-8b", 2, 7.51), ("codellama-7b", 1, 12.56), ("gemma-2-27b", 1, 50.72),
        ("qwen3-8b", 1, 15.27), ("qwen3-14b", 1, 27.52), ("qwen3-32b", 1, 61.03), ("qwen3-32b", 2, 30.59),
        ("qwen2.5-72b", 2, 67.80), ("qwen2.5-72b", 4, 33.98), ("qwen2.5-7b", 1, 14.25), ("qwen2.5-7b", 4, 3.55),
        ("mixtral-8x7b", 4, 21.76), ("phi-4", 1, 27.39), ("phi-4", 2, 13.77),
        # MXFP4 with the kernels of an H100
        ("gpt-oss-20b", 1, 13.64), ("gpt-oss-20b", 2, 7.01), ("gpt-oss-120b", 1, 65.97),
    ],
)  # fmt: skip
def test_loaded_bytes_of_logs(name: str, tp: int, gib: float) -> None:
    spec = load_model(name)
    have = loaded_weight_bytes(spec, Deployment(tensor_parallel_size=tp, engine_version="0.19")) / GIB
    assert gib - 0.13 <= have <= gib + 0.08


def test_ideal_divides_the_file() -> None:
    # Llama-3-70B over four GPUs: 141.1e9 / 4
    spec = load_model("llama-3-70b")
    have = loaded_weight_bytes(spec, Deployment(engine="ideal", tensor_parallel_size=4))
    assert have == pytest.approx(141.1 * GB / 4, rel=1e-3)


def test_stages_are_as_even_as_can_be() -> None:
    # get_pp_indices: what is left over goes to the stages before the last
    sizes = [len(stage) for stage in pipeline_stages(model((61, HEADS)), 4)]
    assert sizes == [15, 15, 16, 15]
    assert [len(stage) for stage in pipeline_stages(model((62, HEADS)), 4)] == [15, 16, 16, 15]
    assert [len(stage) for stage in pipeline_stages(model((32, HEADS)), 4)] == [8, 8, 8, 8]


def spec_with_ends(tied: bool) -> ModelSpec:
    ends = [Tensor(name="embed_tokens.weight", shape=(1024, 64), category="embedding", split="vocab")]
    ends += [Tensor(name="norm.weight", shape=(64,), category="norm")]
    ends += [] if tied else [Tensor(name="lm_head.weight", shape=(1024, 64), category="head", split="vocab")]
    square = Tensor(name="w", shape=(64, 64), category="attention", split="columns", format=BF16)
    group = LayerGroup(layers=(0, 1), mixers=(HEADS,), tensors=(square,))
    return replace(
        model((1, HEADS), vocab=1024, tied_embeddings=tied, tensors=tuple(ends)),
        groups=(group,),
        mtp=(replace(group, layers=(2,)),),
    )


def test_the_embedding_is_first_and_the_head_last_and_a_tied_one_both() -> None:
    table, square, norm = 1024 * 64 * 2, 64 * 64 * 2, 64 * 2
    for tied in (True, False):
        stages = rank_weights(spec_with_ends(tied), Layout(pipeline_parallel_size=2)).stages
        assert stages == (table + square, square + norm + table)
    assert rank_weights(spec_with_ends(True), Layout()).fullest == table + 2 * square + norm


def test_draft_layers_are_loaded_to_speculate() -> None:
    spec = spec_with_ends(False)
    plain, drafting = (rank_weights(spec, Layout(), drafts=drafts).fullest for drafts in (False, True))
    assert drafting - plain == 64 * 64 * 2
    assert drafting == counted_weight_bytes(spec)


def test_a_float32_checkpoint_is_loaded_in_16_bits() -> None:
    spec = replace(load_model("gpt2"), dtype="fp32")
    assert rank_weights(spec, Layout(), dtype="fp32").fullest == rank_weights(spec, Layout()).fullest


@given(
    st.sampled_from(["llama-3.1-8b", "qwen3-8b", "mixtral-8x7b", "deepseek-v2-lite"]),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 4),
)
def test_ranks_together_hold_the_model_at_least_once(name: str, tp: int, pp: int) -> None:
    spec = load_model(name)
    held = rank_weights(spec, Layout(tensor_parallel_size=tp, pipeline_parallel_size=pp))
    whole = rank_weights(spec, Layout()).fullest
    assert len(held.stages) == pp
    assert sum(held.stages) * tp >= whole
    assert held.fullest <= whole


@pytest.mark.parametrize(
    "sizes, words",
    [
        ({"tensor_parallel_size": 8}, None),
        ({"tensor_parallel_size": 16}, "tensor parallelism of 16"),
        ({"tensor_parallel_size": 8, "pipeline_parallel_size": 2}, "2 pipeline stages"),
        ({"tensor_parallel_size": 4, "data_parallel_size": 4, "enable_expert_parallel": True}, "expert parallelism"),
        ({"tensor_parallel_size": 4, "data_parallel_size": 4}, None),  # replicas talk to nobody
        ({"tensor_parallel_size": 6}, "tensor parallelism of 6"),
    ],
)
def test_what_leaves_the_node(sizes: dict[str, object], words: str | None) -> None:
    said = leaves_node(checked(Layout, sizes), 8)
    assert (said is None) if words is None else (said is not None and words in said)
