"""Draft layers beside the target's: loaded and cached only to speculate, on the last stage, in every engine."""

import pytest
from engines.models import LLAMA_3_8B, gqa, mamba2, model

from kvcalc.catalog.models import load_model
from kvcalc.engines import capacity, loaded_weight_bytes
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import LayerGroup
from kvcalc.units import GIB

DRAFTED = replace(LLAMA_3_8B, mtp=(LayerGroup(layers=(32,), mixers=(gqa(8, 128),)),))
LAYER = 2 * 8 * 128 * 2  # bytes of one token: keys and values of eight heads of 128, in 16 bits
BY_NAME = ("ideal", "llamacpp")  # engines whose models draft only where --draft says so


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp", "ideal"])
@pytest.mark.parametrize("stages", [1, 2])
def test_a_drafted_layer_is_cached_on_the_last_stage(engine: str, stages: int) -> None:
    plain = checked(Deployment, {"engine": engine, "pipeline_parallel_size": stages})
    draft = "mtp" if engine in BY_NAME else None
    speculating = replace(plain, num_speculative_tokens=3, draft=draft)
    assert capacity(DRAFTED, plain, 10 * GIB).bytes_per_token(0) == 32 // stages * LAYER
    assert capacity(DRAFTED, speculating, 10 * GIB).bytes_per_token(0) == (32 // stages + 1) * LAYER


def test_the_lessons_divide_the_file() -> None:
    """8,030,261,248 parameters of Llama-3-8B in 16 bits; Qwen3-30B-A3B: 48 layers of 128 experts of 3 × 2,048 × 768."""
    asked = {"engine": "ideal", "tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    assert loaded_weight_bytes(load_model("llama-3-8b"), checked(Deployment, asked)) == 8_030_261_248 * 2 // 4
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    rest = 30_532_122_624 * 2 - experts
    spread = {"engine": "ideal", "tensor_parallel_size": 2, "data_parallel_size": 4, "enable_expert_parallel": True}
    found = loaded_weight_bytes(load_model("qwen3-30b-a3b"), checked(Deployment, spread))
    assert found == rest // 2 + experts // 8


def test_the_lessons_leave_idle_drafts_out() -> None:
    """DeepSeek-V3's README_WEIGHTS: 11.5B parameters in fp8, and copies of the embedding and the head in 16 bits."""
    spec = load_model("deepseek-v3")
    idle = Deployment(engine="ideal")
    more = loaded_weight_bytes(spec, replace(idle, draft="mtp", num_speculative_tokens=1))
    assert more - loaded_weight_bytes(spec, idle) == pytest.approx(11.5e9 + 2 * 2 * 129_280 * 7168, rel=0.02)


@pytest.mark.parametrize("drafted", [0, 2])
def test_llamacpps_states_of_every_slot_and_drafted_token(drafted: int) -> None:
    """Two layers of state, in float32, for four slots, and one more of each for each drafted token; 4,096 cells."""
    spec = model((2, mamba2(64, 64, 128, groups=1)), (2, gqa(8, 128)), max_context=65536)
    state = ((64 * 64 + 2 * 128) * 3 + 64 * 64 * 128) * 4
    asked = {"engine": "llamacpp", "ctx_size": 4096, "parallel": 4, "num_speculative_tokens": drafted}
    held = capacity(spec, checked(Deployment, asked), 10 * GIB)
    assert held.pools[0].num_blocks * held.pools[0].block_bytes == pytest.approx(
        2 * 4 * state * (1 + drafted) + 2 * 4096 * LAYER, abs=4
    )
