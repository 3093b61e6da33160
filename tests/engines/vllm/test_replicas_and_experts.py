"""Replicas of a mixture of experts in vLLM: each expert is sliced over the ranks of all of them, or dealt whole.

FusedMoEParallelConfig.make in vllm/model_executor/layers/fused_moe/config.py: with TP 2, DP 2 and no expert
parallelism "there are 2 engine instances and the tensors are sharded across 4 devices".
"""

import pytest

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.errors import KvcalcError

# Mixtral 8x7B, bf16: 32 layers of 8 experts of 3 matrices, 4,096 by 14,336.
EXPERTS = 32 * 8 * 3 * 4096 * 14336 * 2


def weights(**flags: object) -> int:
    return Deployed(ask("mixtral-8x7b", {"gpu": "h200-sxm", "max_model_len": "4k", **flags})).weight_bytes_per_gpu


def test_a_slice_of_each_expert_is_on_every_rank() -> None:
    lone, four = weights(), weights(data_parallel_size=4)
    assert lone - four == pytest.approx(EXPERTS * 3 / 4, rel=1e-3)
    both = weights(data_parallel_size=4, enable_expert_parallel=True)
    assert four == pytest.approx(both, rel=1e-3)


def test_replicas_of_other_engines_are_whole() -> None:
    sglang = weights(engine="sglang", data_parallel_size=4)
    assert sglang == weights(engine="sglang")


def test_the_experts_meet_the_tokens_of_all_replicas() -> None:
    question = ask("mixtral-8x7b", {"gpu": "h200-sxm", "max_model_len": "4k", "data_parallel_size": "4"})
    assert question.deployment.shares_experts
    assert question.deployment.expert_slices == 4
    assert any(one.name == "slices of an expert" for one in Deployed(question).budget.assumptions)


def test_dense_models_share_nothing() -> None:
    question = ask("llama-3-8b", {"gpu": "h200-sxm", "data_parallel_size": "4"})
    assert not question.deployment.experts_over_replicas


def test_widths_must_divide_by_all_ranks() -> None:
    with pytest.raises(KvcalcError, match="columns of an expert"):
        weights(data_parallel_size=3)
