"""What vLLM takes where a flag is not given."""

import pytest
from engines.memory.test_by_hand_budget import BLACKWELL, CARD, LLAMA_8B, MOE, budget

from kvcalc.engines import settled
from kvcalc.engines.memory.start import Start
from kvcalc.engines.vllm.settings import VllmSettings, vllm_settings
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import LayerGroup, ModelSpec, MoeMlp
from kvcalc.units import GIB


def settings(version: str, gpu: GpuSpec = CARD, length: int | None = None, **flags: object) -> VllmSettings:
    deployment = checked(Deployment, {"engine_version": version, **flags})
    return vllm_settings(Start(LLAMA_8B, gpu, deployment, GIB, max_model_len=length))


def card(gib: float, title: str = "card", capability: str | None = "9.0") -> GpuSpec:
    return replace(CARD, usable_memory_bytes=int(gib * GIB), title=title, compute_capability=capability)


@pytest.mark.parametrize(
    "capability, version, runner",
    [("7.5", "0.8.5", "V0"), ("8.0", "0.8.5", "V1"), ("8.0", "0.7", "V0"), ("7.5", "0.10", "V1"),
     (None, "0.8.5", "V1"), ("gfx942", "0.8.5", "V1")],
)  # fmt: skip
def test_older_cards_had_the_older_engine(capability: str | None, version: str, runner: str) -> None:
    """'Compute Capability < 8.0' falls back to V0: vllm/engine/arg_utils.py, 0.8.5."""
    assert settings(version, card(24, capability=capability)).runner == runner


@pytest.mark.parametrize("length, tokens", [(1000, 2048), (8192, 8192), (32_768, 32_768), (32_769, 2048), (None, 2048)])
def test_the_older_engine_took_a_whole_prompt_up_to_32k(length: int | None, tokens: int) -> None:
    """SchedulerConfig of 0.6: max(max_model_len, 2048), but for chunks of long contexts."""
    found = settings("0.6.4", length=length)
    assert (found.batched_tokens, found.sequences) == (tokens, 256)
    assert settings("0.6.4", length=length, max_num_seqs=1).batched_tokens == tokens


@pytest.mark.parametrize(
    "version, gpu, flags, tokens, sequences",
    [
        # get_batch_defaults: from 70 GiB, but for the A100, and since 0.28 from 160 GiB
        ("0.19", card(70), {}, 8192, 1024),
        ("0.19", card(69.9), {}, 2048, 256),
        ("0.19", card(70), {"offline": True}, 16_384, 1024),
        ("0.19", card(48), {"offline": True}, 8192, 256),
        ("0.19", card(79, "NVIDIA A100 80GB"), {}, 2048, 256),
        ("0.9", card(79, "NVIDIA A100 80GB"), {}, 8192, 1024),
        ("0.28", card(160), {}, 16_384, 1024),
        ("0.28", card(159.9), {}, 8192, 1024),
        ("0.27", card(160), {}, 8192, 1024),
        # One that is given bounds the other.
        ("0.19", card(70), {"max_num_batched_tokens": 4096}, 4096, 1024),
        ("0.19", card(70), {"max_num_batched_tokens": 512}, 512, 512),
        ("0.19", card(70), {"max_num_seqs": 2}, 2 * 512, 2),
        ("0.19", card(70), {"max_num_seqs": 64}, 8192, 64),
        ("0.19", card(70), {"max_num_seqs": 64, "max_num_batched_tokens": 32}, 32, 32),
    ],
)
def test_batches_by_card_and_version(
    version: str, gpu: GpuSpec, flags: dict[str, object], tokens: int, sequences: int
) -> None:
    found = settings(version, gpu, length=512, **flags)
    assert (found.batched_tokens, found.sequences) == (tokens, sequences)
    said = {one.name: one.value for one in found.assumptions}
    assert said.get("max_num_seqs", sequences) == sequences
    assert said.get("max_num_batched_tokens", tokens) == tokens


def test_the_sampler_that_is_assumed() -> None:
    def said(version: str) -> object:
        return {one.name: one.value for one in budget(LLAMA_8B, version).assumptions}["sampler"]

    assert [said(version) for version in ("0.16", "0.17", "0.25")] == ["native", "fused", "V2"]


@pytest.mark.parametrize("dp, expert_parallel, sliced", [(1, False, False), (2, False, True), (2, True, False)])
def test_replicas_slice_experts_that_are_not_dealt(dp: int, expert_parallel: bool, sliced: bool) -> None:
    """FusedMoEParallelConfig.make: tensor parallelism over all ranks of all replicas."""
    group = LayerGroup(layers=(0,), mlp=MoeMlp(experts=8, top_k=2, expert_width=64))
    spec = ModelSpec(name="x", family="x", hidden=64, vocab=100, groups=(group,))
    asked = Deployment(data_parallel_size=dp, enable_expert_parallel=expert_parallel)
    assert settled(spec, CARD, asked).experts_over_replicas is sliced


@pytest.mark.parametrize(
    "tp, pp, dp, moe, gib",
    [(1, 1, 1, False, 0.51), (2, 1, 1, False, 1.60), (1, 2, 1, False, 1.60), (2, 2, 1, False, 1.60),
     (1, 1, 2, False, 0.51), (1, 1, 2, True, 1.60)],
)  # fmt: skip
def test_what_is_there_before_the_first_measurement(tp: int, pp: int, dp: int, moe: bool, gib: float) -> None:
    """H100, 0.19: 0.51 GiB alone, about 1.6 where a communicator is there."""
    found = budget(
        MOE if moe else LLAMA_8B, "0.19", tensor_parallel_size=tp, pipeline_parallel_size=pp, data_parallel_size=dp
    )
    assert found.initial_use.value == int(gib * GIB)


@pytest.mark.parametrize(
    "tp, pp, gib",
    [(1, 1, (0.07, 0.25, 0.50)), (1, 2, (0.05, 0.10, 0.35)), (2, 1, (1.40, 2.08, 2.30)), (8, 1, (1.40, 2.26, 2.48))],
)
def test_what_the_allocator_does_not_see(tp: int, pp: int, gib: tuple[float, float, float]) -> None:
    """H100 (0.19): 0.24 to 0.27 alone; 2.06 to 2.11 with two GPUs, 0.09 more for each doubling."""
    found = budget(LLAMA_8B, "0.19.0", tensor_parallel_size=tp, pipeline_parallel_size=pp).non_torch
    assert (found.low / GIB, found.value / GIB, found.high / GIB) == pytest.approx(gib)


@pytest.mark.parametrize(
    "version, gpu, shape, flags, below, above",
    [
        ("0.19.0", CARD, LLAMA_8B, {}, 0.20, 0.23),
        ("0.22", CARD, LLAMA_8B, {}, 0.30, 0.46),  # charged
        ("0.26", CARD, LLAMA_8B, {}, 0.50, 0.23),  # runner V2, not charged
        ("0.30", CARD, LLAMA_8B, {}, 0.50, 0.46),
        ("0.19.0", CARD, MOE, {"enable_expert_parallel": True}, 0.20, 3.00),
        ("0.19.0", CARD, LLAMA_8B, {"enable_expert_parallel": True}, 0.20, 0.23),
        ("0.30", BLACKWELL, MOE, {"enable_expert_parallel": True}, 0.50, 3.00),
    ],
)
def test_how_far_graphs_may_be_off(
    version: str, gpu: GpuSpec, shape: object, flags: dict[str, object], below: float, above: float
) -> None:
    found = budget(shape, version, gpu, **flags).graphs  # type: ignore[arg-type]
    assert (found.value - found.low) / GIB == pytest.approx(min(below, found.value / GIB), abs=1e-8)
    assert (found.high - found.value) / GIB == pytest.approx(above, abs=1e-8)
