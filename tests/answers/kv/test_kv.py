"""`kvcalc kv`: one token and one sequence, ideal and as engines set them aside."""

import pytest

from kvcalc.answers.kv.answer import kv
from kvcalc.catalog.models import load_model
from kvcalc.results.kv import KvPoint
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.units import GIB, MIB


def one(model: str, context: int, engine: str = "ideal", dtype: str = "auto", **flags: object) -> KvPoint:
    asked = checked(Deployment, {"engine": engine, **flags})
    return kv([load_model(model)], asked, contexts=(context,), cache_dtypes=(dtype,)).result.models[0].by_context[0]


@pytest.mark.parametrize(
    "model, context, gib",
    [  # f16 caches at full context: from the table that an estimator was corrected with
        ("gemma-3-27b", 131072, 10.41),
        ("deepseek-v3.1", 163840, 10.72),
        ("kimi-k2.6", 262144, 17.16),
        ("qwen3-0.6b", 40960, 4.375),
    ],
)
def test_elements_of_a_whole_context(model: str, context: int, gib: float) -> None:
    assert one(model, context).bytes / GIB == pytest.approx(gib, abs=0.005)


def test_llama_cpp_has_caches_of_its_own() -> None:
    # 16 layers × 2 × 1,024 elements × 34/32 B × 65,536 cells, and a state of 149.62 MiB in float32
    found = one("qwen3.5-27b", 65536, "llamacpp", "q8_0")
    assert found.engine_bytes_per_gpu == pytest.approx(2.125 * GIB + 149.62 * MIB, rel=1e-4)
    names = [variant.variant for variant in kv([load_model("qwen3-8b")], Deployment(engine="llamacpp")).result.variants]
    assert names[:2] == ["q8_0 cache", "q4_0 cache"]


def test_llama_cpp_keeps_16_bits_unless_told() -> None:
    asked = Deployment(engine="llamacpp")
    assert kv([load_model("gemma-4-31b-nvfp4")], asked).result.models[0].cache_dtype == "f16"


def test_windows_in_llama_cpp() -> None:
    # Gemma-4-31B at 8,192: 50 windows of 1,024 beside a micro-batch of 512 and ten full layers, f16
    found = one("gemma-4-31b-nvfp4", 8192, "llamacpp")
    assert found.engine_bytes_per_gpu is not None
    assert found.engine_bytes_per_gpu / GIB == pytest.approx(1.17 + 0.63, abs=0.01)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp"])
@pytest.mark.parametrize("model", ["qwen3.5-27b", "nemotron-h-56b", "gemma-3-27b", "deepseek-v3.2"])
def test_every_engine_sets_at_least_the_elements_aside(model: str, engine: str) -> None:
    found = one(model, 8192, engine, "f16" if engine == "llamacpp" else "bf16")
    packed = 0.9 if model == "deepseek-v3.2" else 1.0  # its index is kept in fp8, or not at all
    assert found.engine_bytes_per_gpu is not None
    assert found.engine_bytes_per_gpu >= packed * found.bytes * 0.75 ** (engine == "llamacpp")
