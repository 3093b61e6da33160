import pytest
from engines.models import LLAMA_3_8B

from kvcalc.engines import capacity
from kvcalc.specs.deployment import Deployment
from kvcalc.units import GB, GIB


def test_the_survey_question() -> None:
    # 50 GB of cache for Llama-3-8B at context 2,048: 381,469 tokens, 186 sequences
    held = capacity(LLAMA_3_8B, Deployment(engine="ideal"), 50 * GB)
    assert held.kv_cache_size_tokens == 381469
    assert held.max_batch(2048) == 186


def test_a_start_up_log_of_vllm() -> None:
    # vLLM 0.6.4 on an RTX 3090: 2.89 GiB, "# GPU blocks: 1478", "Maximum concurrency for 29000 tokens: 0.82x"
    held = capacity(LLAMA_3_8B, Deployment(max_model_len=29000), int(2.89 * GIB))
    assert held.num_blocks == pytest.approx(1478, abs=3)
    assert held.max_concurrency() == pytest.approx(0.82, abs=0.005)
