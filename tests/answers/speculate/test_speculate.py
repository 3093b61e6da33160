"""Speculation: acceptance from every source, rounds that are costed truly, and the memory that a draft takes."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.answers.question import ask
from kvcalc.answers.speculate.acceptance import Acceptance, from_files, from_lengths, from_rates
from kvcalc.answers.speculate.answer import speculate
from kvcalc.answers.speculate.drafter import Tree, drafter, method, methods
from kvcalc.answers.speculate.rounds import Overheads
from kvcalc.answers.speculate.settings import SpeculateSettings
from kvcalc.catalog.models import load_model
from kvcalc.counting.params import total_parameters
from kvcalc.errors import KvcalcError
from kvcalc.formulas.speculative import tokens_per_pass
from kvcalc.results.base import Range
from kvcalc.results.speculate import SpeculateResult
from kvcalc.specs.checked import checked


def run(model: str = "llama-3-8b", own: dict[str, object] | None = None, **flags: object) -> SpeculateResult:
    given = {name: str(value) for name, value in {"gpu": "h100-sxm", **flags}.items()}
    return speculate(ask(model, given), checked(SpeculateSettings, own or {})).result


# Acceptance


@settings(max_examples=25)
@given(st.floats(0.05, 0.95), st.floats(0.85, 1), st.sets(st.integers(1, 12), min_size=3, max_size=6))
def test_rate_and_decay_are_found_again(rate: float, decay: float, gammas: set[int]) -> None:
    found = from_lengths({n: tokens_per_pass(rate, n, decay) for n in gammas})
    for n in gammas:
        assert found.tokens_per_pass([1] * n) == pytest.approx(tokens_per_pass(rate, n, decay), rel=2e-3)


@given(st.integers(1, 16), st.floats(0, 1))
def test_one_length_gives_the_rate_that_gives_it(gamma: int, share: float) -> None:
    length = 1 + share * gamma
    assert from_lengths({gamma: length}).tokens_per_pass([1] * gamma) == pytest.approx(length, rel=1e-4)


def test_measured_lengths_of_a_served_model() -> None:
    """InferenceX, accepted lengths on SPEED-Bench coding, one model and drafter: six lengths predict the seventh."""
    measured = {1: 1.83, 2: 2.43, 3: 2.88, 5: 3.46, 6: 3.62, 7: 3.71, 8: 3.77}
    for gamma, length in measured.items():
        others = from_lengths({n: value for n, value in measured.items() if n != gamma})
        assert others.tokens_per_pass([1] * gamma) == pytest.approx(length, rel=0.02)


@pytest.mark.parametrize("length", [0.9, 5.1])
def test_impossible_lengths_are_refused(length: float) -> None:
    with pytest.raises(KvcalcError, match="not possible with 4 draft tokens"):
        from_lengths({4: length})


@pytest.mark.parametrize("suffix", [".npy", ".json", ".csv"])
def test_files_give_one_minus_the_total_variation(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.full(30, 0.3), 50), rng.dirichlet(np.full(30, 0.3), 50)
    names = []
    for name, rows in (("p", p), ("q", q)):
        path = tmp_path / f"{name}{suffix}"
        if suffix == ".npy":
            np.save(path, rows)
        elif suffix == ".json":
            path.write_text(json.dumps(rows.tolist()))
        else:
            np.savetxt(path, rows, delimiter=",")
        names.append(str(path))
    distance = 0.5 * np.abs(p - q).sum(axis=1)
    assert from_files(*names).rate == pytest.approx(1 - distance.mean(), abs=1e-9)


@pytest.mark.parametrize("text", ["", "[]", "[[1, 2], [3]]", '["a"]', "{", "[[0.5, 0.6]]", "[[-1, 2]]"])
def test_bad_files_are_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(KvcalcError):
        from_files(str(path), str(path))


def test_an_object_array_is_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "p.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(KvcalcError):
        from_files(str(path), str(path))


def test_wider_levels_accept_more() -> None:
    given = from_rates([0.5])
    assert given.tokens_per_pass([2, 2]) == pytest.approx(1 + 0.75 + 0.75**2)
    assert given.tokens_per_pass([1, 1]) < given.tokens_per_pass([2, 1]) < given.tokens_per_pass([2, 2])


# Rounds


def gain(result: SpeculateResult) -> float:
    """The speed-up, which is a range but with the lessons."""
    assert isinstance(result.speedup, Range)
    assert result.speedup.low < result.speedup.value < result.speedup.high
    return result.speedup.value


@settings(max_examples=12)
@given(st.floats(0.05, 0.95), st.floats(0.0, 0.5), st.integers(1, 12))
def test_a_stated_cost_at_batch_one_is_the_papers_formula(alpha: float, cost: float, gamma: int) -> None:
    """Leviathan et al. 2023, theorem 3.8: at batch 1 the check costs one memory-bound step."""
    result = run(engine="ideal", context=2048, own={"draft_cost": cost, "acceptance": (alpha,), "gamma": gamma})
    expected = (1 - alpha ** (gamma + 1)) / ((1 - alpha) * (1 + gamma * cost))
    assert result.speedup == pytest.approx(expected)
    assert result.verify_cost_ratio == 1

    def gain(n: int) -> float:
        return (1 - alpha ** (n + 1)) / ((1 - alpha) * (1 + n * cost))

    assert gain(result.best_gamma) == pytest.approx(max(map(gain, range(65))))  # several may be equal to the last digit


def test_the_checks_rows_bind_where_the_lesson_says() -> None:
    """Lesson 12, section 4, step 7: 64 × 5 = 320 rows, near the 326 to 345 from which matmuls are compute-bound."""
    at = run(engine="ideal", context=16, batch=64, own={"draft_cost": 0, "acceptance": (0.8,), "gamma": 4})
    beyond = run(engine="ideal", context=16, batch=128, own={"draft_cost": 0, "acceptance": (0.8,), "gamma": 4})
    assert at.verify_cost_ratio < 1.1
    assert beyond.verify_cost_ratio > 1.8


@pytest.mark.parametrize("engine", ["ideal", "vllm"])
def test_the_gain_of_a_dense_model_shrinks_with_the_batch(engine: str) -> None:
    result = run(engine=engine, context=128, own={"draft": "llama-3.2-1b", "acceptance": (0.8,), "gamma": 4})
    gains = [row.speedup for row in result.by_batch if 64 <= row.batch <= 256]
    assert gains == sorted(gains, reverse=True)
    assert all(row.best_speedup >= max(1.0, row.speedup) - 1e-9 for row in result.by_batch)


def test_where_it_stops_paying() -> None:
    result = run(context=128, own={"draft": "llama-3.2-1b", "acceptance": (0.6,), "gamma": 4})
    stop = result.stops_paying_at_batch
    assert stop is not None
    for batch, pays in ((stop - 1, True), (stop, False)):
        other = run(context=128, batch=batch, own={"draft": "llama-3.2-1b", "acceptance": (0.6,), "gamma": 4})
        assert (gain(other) > 1) is pays


def test_from_which_acceptance_it_pays() -> None:
    own = {"draft": "llama-3.2-1b", "gamma": 3}
    needed = run(context=1024, batch=32, own=own | {"acceptance": (0.8,)}).pays_from_acceptance
    assert needed is not None
    assert gain(run(context=1024, batch=32, own=own | {"acceptance": (needed + 0.01,)})) > 1
    assert gain(run(context=1024, batch=32, own=own | {"acceptance": (needed - 0.01,)})) < 1


def test_checked_tokens_wake_experts() -> None:
    """A mixture's check reads experts that a plain step leaves asleep; a dense model of its size reads nothing more."""
    moe = run("gpt-oss-120b", context=1024, own={"draft_cost": 0, "acceptance": (0.8,), "gamma": 4})
    dense = run("llama-3-70b", tensor_parallel_size=2, context=1024,
                own={"draft_cost": 0, "acceptance": (0.8,), "gamma": 4})  # fmt: skip
    assert moe.verify_cost_ratio > 1.2
    assert dense.verify_cost_ratio < 1.05
    rows = {row.batch: row for row in moe.by_batch}
    assert rows[8].verify_cost_ratio > rows[1].verify_cost_ratio
    assert rows[8].verify_cost_ratio > rows[128].verify_cost_ratio  # by then all are awake anyway


def test_old_engines_copy_the_cache_for_each_drafted_token() -> None:
    """vLLM before 0.6.3 expanded the batch: at batch 64 a 68M draft made Llama-2-7B slower (Argonne, 2024: 0.56 ×)."""
    own = {"draft": "llama-68m", "acceptance": (0.38,), "gamma": 3}
    old = run("llama-2-7b", gpu="a100-40g-sxm", engine_version="0.5.0", batch=64, context=192, own=own)
    new = run("llama-2-7b", gpu="a100-40g-sxm", batch=64, context=192, own=own)
    assert gain(old) < 0.75
    assert gain(new) > gain(old)
    assert Overheads.of("vllm", "0.5.0").copies_rows
    assert not Overheads.of("vllm", None).copies_rows


def test_a_gguf_drafts_by_its_own_layers_where_it_is_asked_to() -> None:
    """Qwen3.5-27B in four bits on an RTX 3090, four tokens drafted, 3.59 a pass: 1.66 × (sudoingX/qwen38-mtp, 42)."""
    own = {"draft": "mtp", "gamma": 4, "accepted_length": ("4:3.59",)}
    flags = {"gpu": "rtx3090", "engine": "llamacpp", "quantization": "q4_k_m", "max_model_len": 8192, "context": 1024}
    found = run("qwen3.5-27b", own=own, **flags)
    assert isinstance(found.speedup, Range)
    assert found.speedup.low < 1.66 < found.speedup.high
    # Its host chooses each drafted token out of the vocabulary, and launches each pass anew.
    assert found.draft_s > 4 * (1.2e-3 + 6e-9 * load_model("qwen3.5-27b").vocab)
    # Nobody asked for them: the file is one of the many that leave them out.
    assert ask("qwen3.5-27b", {name: str(value) for name, value in flags.items()}).model.mtp == ()


# Drafts


def test_a_drafted_layer_has_the_published_size() -> None:
    """EAGLE's README: 0.24B parameters beside LLaMA2-Chat 7B, 0.37B beside 13B, 0.99B beside 70B."""
    for name, billions in (("llama-2-7b", 0.24), ("llama-2-13b", 0.37), ("llama-2-70b", 0.99)):
        own = drafter(load_model(name), "eagle", None, Tree()).own
        assert own is not None
        assert round(total_parameters(own) / 1e9, 2) == pytest.approx(billions, abs=0.01)


def test_mtp_is_the_models_own_layer() -> None:
    """DeepSeek-V3's README_WEIGHTS: 11.5B parameters, and copies of the embedding and the head, 0.9B each."""
    found = drafter(load_model("deepseek-v3"), "mtp", None, Tree())
    assert found.own is not None
    assert (total_parameters(found.own) - 2 * 129_280 * 7168) / 1e9 == pytest.approx(11.5, abs=0.2)
    with pytest.raises(KvcalcError, match="no multi-token-prediction layers"):
        drafter(load_model("llama-3-8b"), "mtp", None, Tree())


@pytest.mark.parametrize("name", [one["names"][0] for one in methods() if one["kind"] != "mtp"])
@pytest.mark.parametrize("model", ["llama-3-8b", "deepseek-v3"])
def test_every_method_drafts_for_every_model(model: str, name: str) -> None:
    tp = 8 if model == "deepseek-v3" else 1
    result = run(model, gpu="h200-sxm", tensor_parallel_size=tp, context=1024, own={"draft": name})
    assert result.by_gamma
    assert result.draft_cost_ratio < 0.5
    tree = run(model, gpu="h200-sxm", tensor_parallel_size=tp, context=1024, own={"draft": name, "tree": True})
    assert tree.by_gamma[0].drafted_tokens >= 10


@pytest.mark.parametrize("name", ["Token Recycling", "token_recycling", "Recycling"])
def test_spellings_of_a_method(name: str) -> None:
    assert method(name) == method("recycling")


def test_heads_run_all_at_once() -> None:
    result = run(context=1024, own={"draft": "medusa", "tree_width": (4, 2, 2)})
    assert len({row.draft_s for row in result.by_gamma}) == 1
    assert [row.drafted_tokens for row in result.by_gamma] == [4, 12, 28]


def test_a_draft_takes_weights_cache_and_slots() -> None:
    """Llama-3.2-1B: 1,235,814,400 parameters in bf16, 16 layers of 8 heads of 64: 32 KiB a token."""
    memory = run(context=2048, own={"draft": "llama-3.2-1b", "acceptance": (0.8,), "gamma": 4}).memory
    assert memory.weight_bytes == pytest.approx(2 * 1_235_814_400, rel=0.01)
    assert memory.cache_bytes_per_token == 32 * 1024
    assert memory.max_batch is not None
    assert memory.max_batch_without is not None
    assert memory.max_batch < memory.max_batch_without
    pool = run(engine="ideal", kv_memory_bytes="50GB", context=2048,
               own={"draft": "llama-3.2-1b", "acceptance": (0.8,), "gamma": 4}).memory  # fmt: skip
    assert pool.max_batch == 50 * 10**9 // ((131_072 + 32_768) * 2052)
    assert pool.max_batch_without == 186


@pytest.mark.parametrize("gamma", [1, 3])
def test_a_recurrent_target_keeps_a_state_of_every_drafted_token(gamma: int) -> None:
    """vLLM 0.33, v1/kv_cache_interface.py: 2 + drafted tokens pages in each of the three groups of states."""
    size = "1000GB"  # so that rounding to whole sequences is small
    asked = {"kv_memory_bytes": size, "context": "4000"}
    memory = run("qwen3.5-27b", {"draft": "ngram", "acceptance": [0.5], "gamma": gamma}, **asked).memory
    pages, blocks = 4000 // 784 + 1, 3 * 2
    assert memory.max_batch is not None
    assert memory.max_batch_without is not None
    expected = (pages + blocks) / (pages + blocks + 3 * gamma)
    assert memory.max_batch / memory.max_batch_without == pytest.approx(expected, rel=0.03)


def test_a_draft_that_does_not_divide_is_whole_on_each_gpu() -> None:
    """qwen3-0.6b has 8 KV heads; a tensor-parallel size of 16 divides qwen3-32b's 64 query heads, not its own 16."""
    question = ask("llama-3-70b", {"gpu": "h100-sxm", "tensor_parallel_size": "8"})
    report = speculate(question, SpeculateSettings(draft="llama-68m", acceptance=(0.5,)))
    assert any(one.name == "draft tensor_parallel_size" for one in report.assumptions)  # 12 heads over 8 GPUs


def test_unstated_acceptance_is_a_listed_assumption() -> None:
    question = ask("llama-3-8b", {"gpu": "h100-sxm", "context": "2048"})
    report = speculate(question, SpeculateSettings(draft="llama-3.2-1b"))
    assert any(one.name == "acceptance" for one in report.assumptions)
    assert report.result.acceptance_rate == pytest.approx(0.8, abs=0.03)  # lesson 12 takes 0.8 for this pair
    stated = speculate(question, SpeculateSettings(draft="llama-3.2-1b", acceptance=(0.7,)))
    assert not any(one.name == "acceptance" for one in stated.assumptions)


def test_another_family_is_pointed_out() -> None:
    question = ask("qwen3-32b", {"gpu": "h100-sxm", "context": "2048"})
    report = speculate(question, SpeculateSettings(draft="llama-3.2-1b", acceptance=(0.7,)))
    assert any(one.name == "shared tokenizer" for one in report.assumptions)
    own = speculate(question, SpeculateSettings(draft="qwen3-0.6b", acceptance=(0.7,)))
    assert not any(one.name == "shared tokenizer" for one in own.assumptions)


def test_positions_bound_the_draft_length() -> None:
    result = run(context=1024, own={"draft_cost": 0.05, "acceptance": (0.9, 0.8, 0.7)})
    assert [row.gamma for row in result.by_gamma] == [1, 2, 3]
    assert result.by_gamma[2].tokens_per_pass == pytest.approx(1 + 0.9 + 0.9 * 0.8 + 0.9 * 0.8 * 0.7)
    with pytest.raises(KvcalcError, match="beyond the 3 positions"):
        run(context=1024, own={"draft_cost": 0.05, "acceptance": (0.9, 0.8, 0.7), "gamma": 4})


@given(st.floats(0, 1), st.integers(1, 8))
def test_an_acceptance_says_between_one_token_and_all(rate: float, gamma: int) -> None:
    assert 1 <= Acceptance(rate=rate, said="").tokens_per_pass([1] * gamma) <= gamma + 1
