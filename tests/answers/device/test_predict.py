"""What `run` predicts, from constants made up for the test: every expected value is worked out by hand."""

import pytest

from kvcalc.answers.device.calibration import spec_name, spec_of, toml_of
from kvcalc.answers.device.constants import linear_at
from kvcalc.answers.device.prediction import cache_bytes, predict, trimmed
from kvcalc.answers.explain import evaluate
from kvcalc.catalog.config.read import read_config
from kvcalc.catalog.gpus import gpu_from_toml, load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.counting.weights import counted_weight_bytes
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.results.calibrate import AttentionRow, CalibrateResult, GlueRow, LinearRow, Rate
from kvcalc.specs.base import Source, replace

US = 1e-6


def calibration(kind: str = "cpu", plain: float | None = None) -> CalibrateResult:
    def linear(rows: int, latency: float, bandwidth: float) -> LinearRow:
        return LinearRow(
            dtype="bf16", rows=rows, latency_s=latency, bandwidth_bytes_per_s=bandwidth,
            plain_bandwidth_bytes_per_s=plain, times_s=(), error=0.01,
        )  # fmt: skip

    glue = {
        "dtype": "bf16",
        "qk_norm": False,
        "bandwidth_bytes_per_s": None,
        "sampler_bandwidth_bytes_per_s": None,
        "times_s": (),
        "error": 0.1,
    }
    return CalibrateResult(
        device="Test CPU 3000",
        kind=kind,
        date="2026-11-29T12:00:00+00:00",
        versions={"torch": "9.9"},
        memory_bytes=64_000_000_000,
        read_bandwidth_bytes_per_s=40e9,
        copy_bandwidth_bytes_per_s=30e9,
        peak_flops={"bf16": 2e12, "fp32": 0.3e12},
        dispatch_s=2 * US,
        linear=Rate(latency_s=50 * US, bandwidth_bytes_per_s=20e9),
        attention=Rate(latency_s=200 * US, bandwidth_bytes_per_s=5e9),
        linear_rows=(linear(1, 50 * US, 20e9), linear(8, 50 * US, 20e9), linear(16, 90 * US, 10e9)),
        attention_rows=(
            AttentionRow(
                dtype="bf16", group=4, head_dim=128, page_size=64, latency_s=200 * US, bandwidth_bytes_per_s=5e9,
                times_s=(), error=0.02,
            ),
            AttentionRow(
                dtype="bf16", group=3, head_dim=64, page_size=64, latency_s=100 * US, bandwidth_bytes_per_s=4e9,
                times_s=(), error=0.02,
            ),
        ),
        glue_rows=(
            GlueRow(cold=False, step_s=100 * US, layer_s=100 * US, **glue),
            GlueRow(cold=True, step_s=300 * US, layer_s=250 * US, **glue),
        ),
        spread={},
        state_before={},
        state_after={},
        quiet=True,
    )  # fmt: skip


def test_terms_of_a_step_by_hand() -> None:
    model, measured = trimmed(load_model("llama-3-8b"), 2), calibration()
    ceilings = spec_of(measured)
    terms = predict(model, load_gpu("h100-sxm"), ceilings, measured, Step(decode=8, context=1000), 64)
    # Llama 3 8B: a layer has q, k, v, o of 4096 × (4096 + 1024 + 1024 + 4096), gate, up, down of 3 × 4096 × 14336;
    # the head is 128256 × 4096.
    layer = 4096 * 10240 + 3 * 4096 * 14336
    weights = 2 * (2 * layer + 128256 * 4096)
    assert terms["weights"].bytes == weights
    # nine products; the glue takes 200 + 2 × 150 µs longer between them
    assert terms["weights"].estimate_s.value == pytest.approx(9 * 50 * US + weights / 20e9 + 500 * US)
    # a thousand tokens of 4 KiB a layer; 16 pages of 64 are read
    assert terms["kv"].bytes == 8 * 1000 * 4096 * 2
    assert terms["kv"].estimate_s.value == pytest.approx(2 * 200 * US + 8 * 1024 * 4096 * 2 / 5e9)
    assert terms["overhead"].estimate_s.value == pytest.approx(300 * US)
    assert terms["overhead"].bytes == 0
    parts = sum(terms[name].estimate_s.value for name in ("weights", "kv", "overhead"))
    assert terms["step"].estimate_s.value == pytest.approx(parts)
    assert terms["step"].bound_s == pytest.approx((weights + 8 * 1000 * 8192) / 3.35e12)
    assert terms["step"].ceiling_s == pytest.approx((weights + 8 * 1000 * 8192) / 40e9)
    for term in terms.values():
        assert evaluate(term.figure) == pytest.approx(term.estimate_s.value)
        assert term.estimate_s.low < term.estimate_s.value < term.estimate_s.high


def test_a_gpu_reads_the_tokens_alone() -> None:
    model, measured = trimmed(load_model("llama-3-8b"), 1), calibration("cuda")
    terms = predict(model, load_gpu("h100-sxm"), spec_of(measured), measured, Step(decode=1, context=1000), 64)
    assert terms["kv"].estimate_s.value == pytest.approx(200 * US + 1000 * 4096 / 5e9)


def test_a_tied_head_is_read_in_its_usual_order() -> None:
    model, measured = trimmed(load_model("smollm2-135m"), None), calibration(plain=8e9)
    terms = predict(model, load_gpu("h100-sxm"), spec_of(measured), measured, Step(decode=1, context=64), 64)
    head = 49152 * 576 * 2
    layers = terms["weights"].bytes - head
    glue = 200 * US + 30 * 150 * US
    assert terms["weights"].estimate_s.value == pytest.approx(120 * 50 * US + layers / 20e9 + head / 8e9 + glue)


def test_what_was_not_measured_is_not_guessed() -> None:
    with pytest.raises(KvcalcError, match="no products on 1 rows in fp16"):
        linear_at(calibration(), "fp16", 1)
    with pytest.raises(KvcalcError, match="no products on 3 rows in bf16"):
        linear_at(calibration(), "bf16", 3)
    model = trimmed(load_model("llama-3-8b"), 1)
    with pytest.raises(KvcalcError, match="no attention"):
        predict(model, load_gpu("h100-sxm"), spec_of(calibration()), calibration(), Step(decode=1, context=64), 16)


def test_bytes_that_the_executor_allocates() -> None:
    model = trimmed(load_model("smollm2-135m"), None)
    assert counted_weight_bytes(model) == 2 * 134_515_008  # parameters of the transformers class
    # 3 KV heads of 64, keys and values, 30 layers, two bytes; pages of 64 tokens
    token = 2 * 3 * 64 * 30 * 2
    assert cache_bytes(model, [1, 64, 65], 64, "bf16") == (1 + 1 + 2) * 64 * token
    assert cache_bytes(model, [8192] * 4, 256, "bf16") == 4 * 8192 * token


def test_windows_give_pages_back() -> None:
    model = trimmed(load_model("mistral-7b-v0.1"), 1)
    # window 4096: tokens 904 to 4999 of 5000 are seen, pages 56 to 312 of 16 tokens
    assert cache_bytes(model, [5000], 16, "bf16") == (312 - 56 + 1) * 16 * 4096


def test_layers_are_trimmed_and_bad_numbers_refused() -> None:
    model = load_model("llama-3-8b")
    assert trimmed(model, 2).layers == 2
    assert trimmed(model, None).layers == 32
    for layers in (0, 33):
        with pytest.raises(KvcalcError, match=f"--layers {layers}"):
            trimmed(model, layers)


def test_a_calibration_is_a_gpu_spec(tmp_path: pytest.TempPathFactory) -> None:
    measured = calibration()
    spec = spec_of(measured)
    assert spec_name("Test CPU 3000") == spec.name == "test-cpu-3000"
    path = tmp_path / "spec.toml"  # type: ignore[operator]
    path.write_text(toml_of(spec))
    assert gpu_from_toml(path) == spec
    assert spec.memory_bandwidth_bytes_per_s == 40e9
    assert spec.kernels is not None
    (gemm,) = spec.kernels.gemm
    assert (gemm.latency_s, gemm.bandwidth_share) == (50 * US, 0.5)
    noisy = spec_of(replace(measured, quiet=False))
    assert noisy.sources["*"].confidence == "low"


def test_text_in_a_spec_is_quoted(tmp_path: pytest.TempPathFactory) -> None:
    strange = replace(calibration(), device='A "quoted" \\ name = [1]\n# é', versions={"a": '"'})
    path = tmp_path / "spec.toml"  # type: ignore[operator]
    path.write_text(toml_of(spec_of(strange)))
    assert gpu_from_toml(path).title.startswith('A "quoted" \\ name = [1]\n# é')


def test_a_made_up_model_of_mixed_windows() -> None:
    config = {
        "model_type": "qwen2", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "torch_dtype": "bfloat16",
        "use_sliding_window": True, "sliding_window": 100, "max_window_layers": 2, "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
    }  # fmt: skip
    model = trimmed(read_config(config, "mixed", Source(what="a test")), None)
    token = 2 * 2 * 32 * 2
    # two layers keep all 1000 tokens in 16 pages of 64; two keep tokens 900 to 999, pages 14 and 15
    assert cache_bytes(model, [1000], 64, "bf16") == 2 * 16 * 64 * token + 2 * 2 * 64 * token
