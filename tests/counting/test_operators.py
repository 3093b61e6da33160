"""Operators of a step: counts against configs and papers, and properties that any step has."""

import subprocess
import sys

import numpy as np
import pytest
from counting.steps import decode_step
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.models import load_model
from kvcalc.counting.operators.attention import attended
from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.work import Operator, Step, agreement, woken
from kvcalc.errors import KvcalcError
from kvcalc.formulas.step import experts_touched
from kvcalc.specs.deployment import Layout
from kvcalc.specs.model import ModelSpec

TP8 = Layout(tensor_parallel_size=8)


def prefill(model: ModelSpec, tokens: int, start: int = 0) -> tuple[Operator, ...]:
    return step_operators(model, Layout(), Step(prompts=1, tokens=tokens, start=start), "bf16")


def total(operators: tuple[Operator, ...], field: str, *kinds: str) -> float:
    return sum(one.count * getattr(one, field) for one in operators if not kinds or one.kind in kinds)


def named(operators: tuple[Operator, ...], name: str) -> Operator:
    return next(one for one in operators if one.name == name)


def test_a_dense_step_reads_every_matrix_once() -> None:
    # 8,030,261,248 parameters (safetensors of meta-llama/Meta-Llama-3-8B), less the embedding table, of which a step
    # reads one row a sequence, and the norms, which are no matrices.
    matrices = 8_030_261_248 - 128_256 * 4096 - (2 * 32 + 1) * 4096
    operators = decode_step(load_model("llama-3-8b"), batch=64, context=2048)
    assert total(operators, "weight_bytes") == 2 * matrices
    assert total(operators, "flops", "gemm") == 64 * 2 * matrices
    # Kaplan et al. 2020: 4 · layers · heads · head_dim · context for each sequence; cache: 131,072 bytes a token.
    assert total(operators, "flops", "attention") == 64 * 4 * 32 * 32 * 128 * 2048
    assert total(operators, "cache_bytes") == 64 * 2048 * 131_072


def test_engines_fuse_what_shares_its_inputs() -> None:
    operators = decode_step(load_model("llama-3-8b"), batch=1, context=128)
    names = [one.name for one in operators if one.kind == "gemm"]
    assert names == ["qkv projection", "output projection", "gate and up", "down", "head"]
    assert named(operators, "qkv projection").flops == 2 * 4096 * (4096 + 2 * 1024)


def test_tensor_parallelism_divides_and_sums() -> None:
    model = load_model("llama-3-70b")
    one, eight = (decode_step(model, layout, batch=16, context=4096) for layout in (Layout(), TP8))
    assert total(eight, "weight_bytes") == pytest.approx(total(one, "weight_bytes") / 8, rel=1e-3)  # padded vocabulary
    assert total(eight, "cache_bytes") == total(one, "cache_bytes") / 8
    sums = named(eight, "all-reduce")
    assert (sums.count, sums.link_bytes, sums.ranks) == (2 * 80, 16 * 8192 * 2, 8)  # two a layer


def test_parallel_residual_sums_once_a_layer() -> None:
    model = load_model("gpt-j-6b")
    assert named(decode_step(model, TP8, batch=1, context=1), "all-reduce").count == 28


def test_latent_attention_is_absorbed_in_decode_and_expanded_in_prefill() -> None:
    # DeepSeek-V3: 128 heads, latent 512 + 64, nope 128, v 128; 2·a·C·(2r + d_rope) FLOPs over C·(r + d_rope) elements.
    model = load_model("deepseek-v3")
    decode = named(decode_step(model, batch=1, context=1000), "latent attention")
    assert decode.flops == 2 * 128 * 1000 * (2 * 512 + 64)
    assert decode.cache_bytes == 1000 * (512 + 64) * 2
    expanded = named(prefill(model, tokens=1000), "prefill latent attention")
    assert expanded.flops == 2 * 128 * (128 + 64 + 128) * 1000**2 / 2
    # kv_b_proj multiplies a row a sequence when absorbed, every cached token when expanded.
    assert named(decode_step(model, batch=4, context=1000), "self_attn.kv_b_proj").rows == 4
    assert named(prefill(model, tokens=100, start=900), "self_attn.kv_b_proj").rows == 1000


def test_sparse_attention_reads_the_chosen_tokens_and_the_whole_index() -> None:
    operators = decode_step(load_model("deepseek-v3.2"), batch=1, context=100_000)
    assert named(operators, "latent attention (sparse)").cache_bytes == 2048 * 576 * 2  # top-k 2,048
    assert named(operators, "indexer").cache_bytes == 100_000 * 128 * 2  # one key of 128 elements a token


def test_windows_stop_growing() -> None:
    model = load_model("gpt-oss-120b")
    near, far = (decode_step(model, batch=1, context=context) for context in (128, 100_000))
    assert named(near, "attention (sliding)").bytes == named(far, "attention (sliding)").bytes
    assert named(far, "attention (full)").cache_bytes == 100_000 * 2 * 8 * 64 * 2


def test_coarse_experts_are_woken_as_by_fewer_tokens() -> None:
    operators = decode_step(load_model("mixtral-8x7b"), batch=4, context=1)
    experts = named(operators, "experts")
    touched = 8 * (1 - (6 / 8) ** 4**0.79)
    assert experts.weight_bytes == pytest.approx(touched * 3 * 4096 * 14336 * 2)
    assert experts.flops == 4 * 2 * 2 * 3 * 4096 * 14336  # two experts a token


@pytest.mark.parametrize("experts, exponent", [(8, 0.79), (128, 0.79), (160, 0.857605), (181, 0.894968), (256, 1.0)])
def test_agreement_fades_between_128_and_256_experts(experts: int, exponent: float) -> None:
    """By the logarithm of their number: of 160 log2(1.25) = 0.321928 of the way from 0.79 to 1."""
    assert agreement(experts) == pytest.approx(exponent, rel=1e-5)


def test_fine_experts_are_woken_as_uniform_routing_has_it() -> None:
    experts = named(decode_step(load_model("deepseek-v3"), batch=20, context=1), "experts")
    assert experts.experts is not None
    assert experts.experts.woken == pytest.approx(256 * (1 - (248 / 256) ** 20))


@given(st.integers(1, 512), st.integers(1, 8), st.integers(1, 10_000))
def test_woken_experts_lie_between_one_token_and_uniform_routing(experts: int, chosen: int, tokens: int) -> None:
    top_k = min(chosen, experts)
    some = woken(experts, top_k, tokens)
    assert top_k * (1 - 1e-9) <= some <= experts_touched(experts, top_k, tokens) * (1 + 1e-9)
    assert woken(experts, top_k, tokens + 1) >= some * (1 - 1e-12)


def test_expert_parallelism_keeps_whole_experts_and_sends_rows() -> None:
    model = load_model("deepseek-v3")
    shared = Layout(data_parallel_size=8, enable_expert_parallel=True)
    operators = decode_step(model, shared, batch=32, context=1000)
    experts = named(operators, "experts")
    assert experts.rows == 8 * 32 * 8 / 8  # all replicas' rows, eight experts each, over eight ranks
    assert experts.weight_bytes == pytest.approx(256 * (1 - (31 / 32) ** 256) / 8 * 3 * 7168 * 2048, rel=1e-3)
    # A row reaches 8 · (1 - (7/8)⁸) of 8 ranks with its eight experts; the experts take it in fp8, and answer in bf16.
    reached = 8 * (1 - (7 / 8) ** 8)
    assert named(operators, "dispatch").link_bytes == pytest.approx(32 * reached * 7168)
    assert named(operators, "combine").link_bytes == pytest.approx(32 * reached * 7168 * 2)


def test_recurrent_state_is_read_and_written() -> None:
    # Qwen3-Next: 36 layers of 32 x 128 x 128 state elements and 8,192 x 3 convolution columns.
    state = named(decode_step(load_model("qwen3-next-80b-a3b"), batch=1, context=50_000), "state (gated_delta_net)")
    assert state.count == 36
    assert state.cache_bytes == 2 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)


def test_cross_attention_keys_are_made_once() -> None:
    model = load_model("llama-3.2-90b-vision")
    decode = decode_step(model, batch=1, context=100)
    cross = [one for one in prefill(model, tokens=100) if one.name.endswith(("k_proj", "v_proj")) or one.rows == 6404]
    assert not any(one.rows == 6404 for one in decode)
    assert named(decode, "cross-attention").cache_bytes > 0
    assert all(one.rows > 100 for one in cross)


def test_verification_reads_the_cache_once_for_all_rows() -> None:
    model = load_model("llama-3-8b")
    plain, verify = (decode_step(model, batch=8, context=512, tokens_per_sequence=rows) for rows in (1, 5))
    assert total(verify, "cache_bytes") == total(plain, "cache_bytes")
    assert total(verify, "flops") == 5 * total(plain, "flops")


def test_a_mixed_step_is_both_of_its_parts() -> None:
    model = load_model("llama-3-8b")
    mixed = step_operators(model, Layout(), Step(decode=64, context=1024, prompts=1, tokens=256, start=1792), "bf16")
    assert named(mixed, "down").rows == 64 + 256
    assert named(mixed, "head").rows == 64 + 1  # the prompt's last row alone
    assert named(mixed, "attention (full)").cache_bytes == 64 * 1024 * 4096
    assert named(mixed, "prefill attention (full)").flops == 4 * 32 * 128 * 256 * (1792 + 128)


def test_what_the_mask_hides_of_a_prompt_is_counted_apart() -> None:
    def found(name: str, start: int, kind: str) -> Operator:
        step = Step(prompts=1, tokens=256, start=start)
        return named(step_operators(load_model(name), Layout(), step, "bf16"), f"prefill attention ({kind})")

    full = found("llama-3-8b", 1792, "full")
    assert (full.later_flops, full.behind_flops) == (4 * 32 * 128 * 256 * 128, 0)
    # 64 heads of 64, a window of 128: cells of 128 + 256 tokens are held, of which 256 rows see 128 each.
    sliding = found("gpt-oss-120b", 1792, "sliding")
    assert sliding.flops == 4 * 64 * 64 * 256 * 128
    assert sliding.later_flops == 4 * 64 * 64 * 256 * 128
    assert sliding.flops + sliding.later_flops + sliding.behind_flops == 4 * 64 * 64 * 256 * (128 + 256)
    # At the start there are but its own tokens.
    first = found("gpt-oss-120b", 0, "sliding")
    assert first.flops + first.later_flops + first.behind_flops == 4 * 64 * 64 * 256 * 256


def test_pipeline_stages_hand_on_a_micro_batch() -> None:
    model = load_model("llama-3-70b")
    operators = decode_step(model, Layout(pipeline_parallel_size=4), batch=64, context=1)
    assert named(operators, "down").rows == 16
    assert named(operators, "send to the next stage").link_bytes == 16 * 8192 * 2
    with pytest.raises(KvcalcError, match="exceeds the 80 layers"):
        decode_step(model, Layout(pipeline_parallel_size=81), batch=1, context=1)


@given(st.integers(0, 300), st.integers(1, 300), st.integers(1, 200))
def test_windowed_pairs_are_what_counting_gives(start: int, tokens: int, window: int) -> None:
    # Each token sees itself half: (i + 1) tokens less the half of the diagonal, at most the window.
    counted = sum(min(start + i, window) + (0.5 if start + i < window else 0) for i in range(tokens))
    assert attended(start, tokens, window) == pytest.approx(counted)


@given(st.integers(1, 4000), st.integers(1, 4000))
def test_chunks_of_a_prompt_compute_what_the_whole_does(first: int, second: int) -> None:
    model = load_model("llama-3-8b")
    whole = prefill(model, tokens=first + second)
    parts = prefill(model, tokens=first), prefill(model, tokens=second, start=first)
    heads = [named(one, "head").flops for one in (whole, *parts)]
    apart = [total(one, "flops") - head for one, head in zip((whole, *parts), heads, strict=True)]
    assert apart[0] == pytest.approx(apart[1] + apart[2])


@given(st.integers(1, 256), st.integers(1, 3000), st.integers(1, 60_000))
def test_bytes_and_flops_are_linear_in_the_cached_tokens(batch: int, context: int, more: int) -> None:
    model = load_model("llama-3-8b")
    steps = [decode_step(model, batch=batch, context=context + i * more) for i in range(3)]
    for field in ("bytes", "flops"):
        low, middle, high = (total(one, field) for one in steps)
        assert high - middle == pytest.approx(middle - low)


@pytest.mark.parametrize("name", ["llama-3-8b", "gpt-oss-120b", "deepseek-v3.2", "qwen3-next-80b-a3b"])
def test_arrays_give_what_numbers_give(name: str) -> None:
    model = load_model(name)
    batches, contexts = np.array([1, 7, 200]), np.array([10, 3000, 50_000])
    swept = decode_step(model, TP8, batch=batches, context=contexts)
    for place, (batch, context) in enumerate(zip(batches.tolist(), contexts.tolist(), strict=True)):
        single = decode_step(model, TP8, batch=batch, context=context)
        for field in ("bytes", "flops", "link_bytes"):
            array = np.broadcast_to(total(swept, field), 3)
            assert array[place] == pytest.approx(total(single, field)), (name, field)


def test_a_step_of_numbers_needs_no_numpy() -> None:
    code = (
        "import sys; from kvcalc.catalog.models import load_model;"
        "from kvcalc.counting.operators.passes import step_operators; from kvcalc.counting.work import Step;"
        "from kvcalc.specs.deployment import Layout;"
        "step_operators(load_model('gpt-oss-120b'), Layout(), Step(decode=8, context=2048), 'bf16');"
        "print('numpy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
