"""Figures worked out by hand, where a wrong factor would pass every property."""

from itertools import pairwise

import pytest

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.prefill.answer import prefill
from kvcalc.answers.question import ask
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.work import Operator, Step
from kvcalc.specs.deployment import Layout
from kvcalc.timing.chunks import chunks
from kvcalc.timing.engine_profiles import profile_for
from kvcalc.timing.machine import with_profile
from kvcalc.timing.prompts import Requests, busy_prompt
from kvcalc.timing.ranges import Spread, Timed, range_around
from kvcalc.timing.roofline import operator_bound


def operators(name: str, step: Step, tp: int = 1) -> dict[str, Operator]:
    found = step_operators(load_model(name), Layout(tensor_parallel_size=tp), step, "bf16")
    return {one.name: one for one in found}


def test_chunks_follow_each_other_from_what_is_cached() -> None:
    sizes, starts, numbers = zip(*chunks(20_000, 8192), strict=True)
    assert numbers == (1, 1, 1)
    assert sizes == pytest.approx([20_000 / 3] * 3)
    assert starts == pytest.approx([0, 20_000 / 3, 40_000 / 3])
    assert chunks(8_000, 8192, start=12_000) == [(8000, 12_000, 1)]


def test_runs_of_very_many_chunks_stand_for_all_of_them() -> None:
    runs = chunks(99_500, budget=1, start=500)
    assert len(runs) <= 64
    assert sum(run.number * run.tokens for run in runs) == pytest.approx(99_500)
    # What is linear in the start is exact: the starts of 99,500 chunks of one token after 500.
    assert sum(run.number * run.start for run in runs) == pytest.approx(99_500 * 500 + 99_500 * 99_499 / 2)


@pytest.mark.parametrize("tp", [1, 8])
def test_every_rank_reads_the_whole_latent(tp: int) -> None:
    # DeepSeek-V3: 512 + 64 elements of two bytes a token, whole on each rank; its weights are divided.
    found = operators("deepseek-v3", Step(decode=4, context=1000), tp)
    latent = next(one for one in found.values() if one.kind == "latent_attention")
    assert latent.cache_bytes == 4 * 1000 * 576 * 2


@pytest.mark.parametrize("tp, kv_heads_each", [(2, 4), (8, 1), (16, 1), (32, 1)])
def test_ranks_beyond_the_kv_heads_keep_one_each(tp: int, kv_heads_each: int) -> None:
    # Llama-3-8B: 32 query heads and 8 KV heads of 128, 4,096 wide, bf16.
    found = operators("llama-3-8b", Step(decode=1, context=100), tp)
    outputs = 4096 / tp + 2 * kv_heads_each * 128
    assert found["qkv projection"].weight_bytes == outputs * 4096 * 2
    attention = next(one for one in found.values() if one.kind == "attention")
    assert attention.cache_bytes == 2 * kv_heads_each * 128 * 2 * 100


def test_a_rate_is_high_where_its_time_is_low() -> None:
    found = Performance(Deployed(ask("llama-3-8b", {"gpu": "h100-sxm", "batch": "8", "context": "2048"}))).estimate
    assert found is not None
    time, rate = found.step_time_s, found.output_tokens_per_s
    assert time.low < time.value < time.high
    assert (rate.low, rate.high) == (8 / time.high, 8 / time.low)


@pytest.mark.parametrize("timed", ["decode", "prompt", "first-token"])
def test_a_card_that_nobody_measured_has_a_wider_range(timed: Timed) -> None:
    def around(gpu: str) -> Spread:
        return range_around(with_profile(load_gpu(gpu), profile_for("vllm", "0.33", "NVIDIA")), False, timed)

    own, borrowed, judged = around("h100-sxm"), around("h100-pcie"), around("mi300x")
    assert [one.kind.removeprefix("vllm-").removeprefix(f"dense-{timed}") for one in (own, borrowed, judged)] == [
        "", "-unmeasured", "-judged",
    ]  # fmt: skip
    widths = [one.high / one.low for one in (own, borrowed, judged)]
    if timed != "prompt":  # alone, prompts on other GPUs' constants err no more than on their own
        assert all(wider >= 0.98 * narrow for narrow, wider in pairwise(widths))


def test_a_swap_copies_each_block_of_each_layer_keys_and_values_apart() -> None:
    question = ask("llama-3-8b", {"gpu": "h100-sxm", "input_len": "1500", "batch": "1"})
    found = prefill(question).result.preemption
    rows = {row.block_size: row.copies for row in found.by_block_size}
    assert rows[16] == 94 * 32 * 2  # 1,500 tokens are 94 blocks of 16
    assert rows[128] == 12 * 32 * 2
    link = load_gpu("h100-sxm").link("pcie")
    assert link is not None
    one_way = 1500 * 131_072 / (0.8 * link.bandwidth_bytes_per_s) + rows[16] * 5.5e-6
    assert found.swap_one_way_s == pytest.approx(one_way)
    assert found.swap_s == pytest.approx(2 * one_way)


def test_weights_in_the_hosts_memory_cross_its_link_in_every_step() -> None:
    # 30 GiB over PCIe 5.0 at 64 GB/s: half a second, and no estimate is below it.
    flags = {"gpu": "h100-sxm", "batch": "1", "context": "1024"}
    plain, offloaded = (
        Performance(Deployed(ask("llama-3-70b", {**flags, **more}))).step
        for more in ({"tensor_parallel_size": "2"}, {"tensor_parallel_size": "2", "cpu_offload_bytes": "30"})
    )
    assert plain is not None
    assert offloaded is not None
    link = load_gpu("h100-sxm").link("pcie")
    assert link is not None
    crossing = 30 * 2**30 / link.bandwidth_bytes_per_s
    assert offloaded.operator_bound_s == pytest.approx(plain.operator_bound_s + crossing)
    assert offloaded.time_s >= plain.time_s + crossing


def test_weights_that_are_fetched_ahead_wait_for_the_link_alone() -> None:
    """Half of Llama 3 8B's layers over PCIe 5.0: 16 of 436,224,000 bytes at 64 GB/s, 109 ms; a hundredth is hidden."""
    flags = {"gpu": "h100-sxm", "batch": "1", "context": "1024"}
    plain, many, few = (
        Performance(Deployed(ask("llama-3-8b", {**flags, **more}))).step
        for more in ({}, {"offload_group_size": "2"}, {"offload_group_size": "2", "cpu_offload_bytes": "1"})
    )
    assert plain is not None
    assert many is not None
    crossing = 16 * 436_224_000 / 64e9
    assert crossing < many.operator_bound_s < crossing + plain.operator_bound_s
    assert crossing < many.time_s < crossing + plain.time_s
    assert few is not None
    assert many.time_s == few.time_s  # both asked for: vLLM fetches ahead (offloader/base.py, create_offloader)


def test_prompts_without_end_wait_for_their_weights_too() -> None:
    """Of Llama 3 8B half the layers cross PCIe 5.0 in every step: 109 ms for at most 8,192 prompt tokens."""
    flags = {"gpu": "h100-sxm", "input_len": "512", "output_len": "1", "offload_group_size": "2"}
    replica = Deployed(ask("llama-3-8b", flags)).replica
    assert busy_prompt(replica, Requests(512, 1)) >= 16 * 436_224_000 / 64e9 * 512 / replica.budget


def test_without_graphs_the_host_launches_each_layer() -> None:
    flags = {"gpu": "h100-sxm", "batch": "1", "context": "1024"}
    plain, eager = (
        Performance(Deployed(ask("llama-3-8b", {**flags, **more}))).step for more in ({}, {"enforce_eager": True})
    )
    assert plain is not None
    assert eager is not None
    assert eager.time_s > 1.2 * plain.time_s
    assert eager.bound_s == plain.bound_s


@pytest.mark.parametrize("ranks, share", [(2, 1.0), (8, 2 * 7 / 8)])
def test_an_all_reduce_moves_two_parts_of_what_the_others_hold(ranks: int, share: float) -> None:
    gpu = load_gpu("h100-sxm")
    link = gpu.link("nvlink")
    assert link is not None
    one = Operator("sum", "all_reduce", 3, link_bytes=1e6, ranks=ranks)
    assert operator_bound(one, gpu) == pytest.approx(3 * share * 1e6 / link.bandwidth_bytes_per_s)


def test_an_emulators_head_works_for_every_token() -> None:
    every = operators("llama-3-8b", Step(prompts=2, tokens=64, causal=False))
    last = operators("llama-3-8b", Step(prompts=2, tokens=64))
    assert every["head"].rows == 128
    assert last["head"].rows == 2
