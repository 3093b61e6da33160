"""llama.cpp's cells against its start-up logs, in MiB."""

import pytest
from engines.models import GEMMA_3_27B, LLAMA_3_8B, QWEN3_5_9B, QWEN3_5_27B, gqa, latent, model

from kvcalc.engines import capacity
from kvcalc.engines.llamacpp.dtypes import key_value_types
from kvcalc.engines.llamacpp.rows import row_bytes, sliding_cells, state_bytes
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import Mixer, ModelSpec, Recurrent
from kvcalc.units import GIB, MIB


def llama(dtype: str = "auto", **flags: object) -> Deployment:
    return checked(Deployment, {"engine": "llamacpp", "kv_cache_dtype": dtype, **flags})


@pytest.mark.parametrize(
    "mixer, dtype, layers, cells, mib",
    [
        (gqa(8, 128), "auto", 28, 4096, 448.0),  # Llama-3.2-3B: f16
        (gqa(8, 128), "q8_0,f16", 28, 4096, 343.0),  # keys alone quantized
        (gqa(8, 128), "q4_0,f16", 28, 4096, 287.0),
        (gqa(8, 128), "q4_1,f16", 28, 4096, 294.0),
        (gqa(8, 64), "q8_0", 12, 8192, 102.0),  # gpt-oss-20b, the layers without a window
        (gqa(8, 128), "q4_0", 12, 1048576, 13824.0),
        (gqa(64, 128, query_heads=64), "f16", 40, 2048, 2560.0),  # Command-R: a KV head for each query head
        (gqa(32, 96), "f16", 32, 4096, 1536.0),  # Phi-3-mini
        (latent(), "f16", 6, 2 * 4096, 54.0),  # a latent has no values beside it; two streams of 4,096
    ],
)
def test_rows(mixer: Mixer, dtype: str, layers: int, cells: int, mib: float) -> None:
    assert layers * cells * row_bytes(mixer, key_value_types(llama(dtype))) / MIB == pytest.approx(mib, abs=0.005)


def test_sliding_cells() -> None:
    # "creating SWA KV cache, size = N cells"
    assert sliding_cells(131072, 128) == 768
    assert sliding_cells(131072, 128, micro_batch=2048) == 2304
    assert sliding_cells(8192, 4096, sequences=4) == 8192
    assert sliding_cells(131072, 1024, sequences=4, micro_batch=2048) == 6144


def test_states_are_float32() -> None:
    # "llama_memory_recurrent: size = 149.62 MiB (1 cells"; with six states to roll back to 1047.38; 4 cells 201.00
    def mib(spec: ModelSpec, drafted: int = 0) -> float:
        mixers = [(g.count, m) for g in spec.groups for m in g.mixers]
        return sum(count * state_bytes(m, drafted) for count, m in mixers if isinstance(m, Recurrent)) / MIB

    assert mib(QWEN3_5_27B) == pytest.approx(149.62, abs=0.0051)
    assert mib(QWEN3_5_27B, drafted=6) == pytest.approx(1047.38, abs=0.0051)
    assert 4 * mib(QWEN3_5_9B) == pytest.approx(201.0, abs=0.0051)


def test_one_slot_of_a_hybrid() -> None:
    # Qwen3.6-27B, q8_0, one slot of 65,536: 2.125 GiB of cache and 0.146 GiB of state
    held = capacity(QWEN3_5_27B, llama("q8_0"), 10 * GIB)
    assert held.needed_bytes(65536) / GIB == pytest.approx(2.125 + 0.146, abs=0.001)


def test_one_sequence_of_a_windowed_model() -> None:
    # Gemma-4-31B at 8,192 in f16: 50 layers of a window and a micro-batch, 10 of the context: 1.17 and 0.63 GiB
    spec = model((50, gqa(16, 256, window=1024)), (10, gqa(4, 512)), max_context=262144)
    assert capacity(spec, llama(), 10 * GIB).needed_bytes(8192) / GIB == pytest.approx(0.63 + 1.17, abs=0.01)
    # Gemma-3-27B at its whole context: 10.41 GiB is what the elements need
    whole = capacity(GEMMA_3_27B, llama(), 20 * GIB).needed_bytes(131072) / GIB
    assert 10.41 < whole < 10.65


def test_types_that_nobody_gave() -> None:
    assert key_value_types(llama()) == ("f16", "f16")
    assert capacity(LLAMA_3_8B, llama(), GIB).kv_cache_size_tokens == 8192
