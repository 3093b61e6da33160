"""Kernels at round constants: the docstrings' formulas worked out by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.counting.work import ExpertLoad, Operator
from kvcalc.specs.kernels import AllReduceKernel, AttentionKernel, ExpertsKernel, GemmKernel, Kernels
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.attention import latent_attention_time, prefill_attention_time
from kvcalc.timing.operators.collective import ring_time
from kvcalc.timing.operators.smooth import smooth_maximum
from kvcalc.timing.operators.times import operator_time
from kvcalc.timing.ranges import range_around
from kvcalc.timing.roofline import operator_bound

H100 = load_gpu("h100-sxm")  # 3.35 TB/s, 989 TFLOP/s bf16, 1,979 fp8; NVLink 450 GB/s, PCIe 64 GB/s one way
BANDWIDTH, PEAK = 3.35e12, 989e12


def on(profile: Profile | None = None, **rows: Any) -> Machine:
    return Machine(H100, Kernels(evidence="round numbers", **rows), profile or Profile("x", "x"), 8)


def test_a_latent_read_is_the_largest_of_bytes_flops_and_the_walk() -> None:
    # 2 GB at half of 4 TB/s, 1 TFLOP at half of 2 PFLOP/s, 1,000 tokens of 1 µs: a millisecond each.
    def work(read: float, flops: float, context: float) -> float:
        return float(latent_attention_time(read, flops, context * 1e-6, 0.5 * 4e12, 0.5 * 2e15, 7e-6)[1])

    assert work(2e9, 0, 0) == work(0, 1e12, 0) == work(0, 0, 1000) == pytest.approx(1e-3)
    assert work(2e9, 1e12, 1000) == pytest.approx(3**0.25 * 1e-3)
    assert smooth_maximum(2.0, 2.0, 2.0) == pytest.approx(2 * 3**0.25)


def test_a_prompts_attention_computes_and_then_moves() -> None:
    # 1 TFLOP at half of a PFLOP/s, and 3 GB at three quarters of 4 TB/s.
    assert prefill_attention_time(1e12, 3e9, 0.75 * 4e12, 0.5 * 1e15, 7e-6) == (7e-6, pytest.approx(2e-3 + 1e-3))


def test_a_ring_carries_its_share_and_climbs_with_the_root() -> None:
    # 4 MB over 8 GPUs: 7 MB at half of 100 GB/s are 140 µs, and the climb is twice that of 1 MB.
    assert ring_time(4e6, 8, 100e9, 5e-6, 0.5, sqrt_s=3e-6) == (5e-6, pytest.approx(140e-6 + 6e-6))


def test_each_collective_takes_its_own_row() -> None:
    rows = (
        AllReduceKernel(library="nccl", gpus=2, latency_s=9e-6, link_share=0.9),
        AllReduceKernel(library="nccl", gpus=8, latency_s=8e-6, link_share=0.8),
        AllReduceKernel(library="own", gpus=2, latency_s=5e-6, link_share=0.5),
        AllReduceKernel(library="own-eager", gpus=4, latency_s=1e-6),
    )
    machine = on(Profile("x", "x", library="own"), all_reduce=rows)
    link = H100.link("nvlink")
    assert link is not None
    rate = link.bandwidth_bytes_per_s

    def time(kind: Any, ranks: int) -> tuple[float, float]:
        latency, work = operator_time(Operator("x", kind, 1, link_bytes=8e6, ranks=ranks), machine)
        return latency, work

    assert time("all_reduce", 4) == (5e-6, pytest.approx(2 * 3 / 4 * 8e6 / (0.5 * rate)))
    # NCCL's for what the engine has no row for: the nearest group.
    assert time("all_to_all", 6) == (8e-6, pytest.approx(5 / 6 * 8e6 / (0.8 * rate)))
    assert time("all_to_all", 4) == (9e-6, pytest.approx(3 / 4 * 8e6 / (0.9 * rate)))


@pytest.mark.parametrize(
    "kind, ranks, hops", [("all_reduce", 16, 1), ("all_reduce", 32, 2), ("all_reduce", 40, 3), ("send", 32, 0)]
)
def test_nodes_are_joined_by_a_tree_of_rounds(kind: Any, ranks: int, hops: int) -> None:
    # A tree over 2, 4 and 5 nodes of eight, a tenth of a millisecond each round; a send pays none.
    rows = (AllReduceKernel(library="nccl", gpus=8, latency_s=8e-6, link_share=0.8),)
    latency, work = operator_time(Operator("x", kind, 1, link_bytes=8e6, ranks=ranks), on(all_reduce=rows))
    assert latency == pytest.approx(8e-6 + hops * 1e-4)
    link = H100.link("network")
    assert link is not None
    moved = 2 * (ranks - 1) / ranks * 8e6 if kind == "all_reduce" else 8e6  # a send hands all of it over
    assert work == pytest.approx(moved / (0.8 * link.bandwidth_bytes_per_s))


@pytest.mark.parametrize("ranks, top_k, moved", [
    (32, 0, 31 / 32 * 8e6),  # to each rank by itself
    # 8 of 32 ranks hold 7.18 experts' ranks of a row in 3.6 of 4 nodes, three of which are others.
    (32, 8, 8e6 * 4 * (1 - 0.75**8) / (32 * (1 - (31 / 32) ** 8)) * 3 / 4),
    (8, 8, 7 / 8 * 8e6),  # one node: nothing leaves it
])  # fmt: skip
def test_rows_of_a_prompt_cross_to_each_node_once(ranks: int, top_k: int, moved: float) -> None:
    rows = (AllReduceKernel(library="nccl", gpus=8, latency_s=8e-6, link_share=0.8),)
    one = Operator("x", "all_to_all", 1, link_bytes=8e6, ranks=ranks, top_k=top_k)
    link = H100.link("nvlink" if ranks == 8 else "network")
    assert link is not None
    assert operator_time(one, on(all_reduce=rows)) == (
        8e-6,
        pytest.approx(moved / (0.8 * link.bandwidth_bytes_per_s)),
    )
    assert operator_bound(one, H100) == pytest.approx(moved / link.bandwidth_bytes_per_s)


def test_geforce_cards_talk_through_the_host() -> None:
    rows = (
        AllReduceKernel(library="pcie", gpus=2, latency_s=5e-6, link_share=0.5),
        AllReduceKernel(library="pcie-host", gpus=2, latency_s=9e-6, link_share=0.25),
    )
    one = Operator("x", "all_reduce", 1, link_bytes=8e6, ranks=2)
    latencies = [
        operator_time(one, on(all_reduce=rows)._replace(gpu=load_gpu(name)))[0] for name in ("l40s", "rtx4090")
    ]
    assert latencies == [5e-6, 9e-6]


def test_weights_of_the_host_cross_at_a_share_and_norms_at_another() -> None:
    link = H100.link("pcie")
    assert link is not None
    host = operator_time(Operator("x", "host", 1, link_bytes=1e9, ranks=2), on())
    assert host == (0, pytest.approx(1e9 / (0.8 * link.bandwidth_bytes_per_s)))
    norms = Operator("x", "elementwise", 1, activation_bytes=BANDWIDTH / 1000)
    assert operator_time(norms, on(elementwise_share=0.5)) == (0, pytest.approx(2e-3))


@pytest.mark.parametrize(
    "heads, head_dim, everything, again", [(8, 128, False, 0), (8, 64, False, 7), (4, 128, False, 3), (8, 128, True, 7)]
)
def test_query_heads_apart_read_the_cache_again(heads: int, head_dim: int, everything: bool, again: int) -> None:
    profile = Profile("x", "x", library="own", reread_bytes_per_s=5e12, reread_all=everything)
    rows = (
        AttentionKernel(dtype="bf16", library="other", latency_s=1e-6, bandwidth_share=0.25),
        AttentionKernel(dtype="bf16", library="own", latency_s=3e-6, bandwidth_share=0.5),
    )
    one = Operator("x", "attention", 1, cache_bytes=BANDWIDTH / 1000, group_heads=heads, head_dim=head_dim)
    latency, work = operator_time(one, on(profile, attention=rows))
    assert latency == 3e-6
    assert work == pytest.approx(2e-3 + again * BANDWIDTH / 1000 / 5e12)


def test_an_index_is_a_read_and_a_choice() -> None:
    rows = (AttentionKernel(dtype="bf16", library="vllm", latency_s=3e-6, bandwidth_share=0.5),)
    one = Operator("x", "indexer", 1, cache_bytes=BANDWIDTH / 1000)
    assert operator_time(one, on(attention=rows, index_s=4e-6)) == (pytest.approx(7e-6), pytest.approx(2e-3))


def test_widened_weights_cost_a_share_of_the_bandwidth() -> None:
    # int4 has no arithmetic of its own in bf16 kernels: by its bits.
    rows = (GemmKernel(dtype="bf16", latency_s=3e-6, bandwidth_share=0.8, flops_share=0.7),)
    machine = on(gemm=rows, weight_only_share={"4": 0.5, "8": 0.75})
    for bits, share in ((4, 0.5), (5, 0.75), (8, 0.75), (9, 1.0)):
        one = Operator("x", "gemm", 1, weight_bytes=BANDWIDTH / 1000, compute="bf16", format="other", bits=bits)
        assert operator_time(one, machine)[1] == pytest.approx(1e-3 / (0.8 * share)), bits


def test_the_fastest_expert_kernel_is_taken_at_each_size() -> None:
    rows = (
        ExpertsKernel(dtype="bf16", kernel="soon", latency_s=1e-6, bandwidth_share=0.25),
        ExpertsKernel(dtype="bf16", kernel="fast", latency_s=10e-6, bandwidth_share=0.5),
        ExpertsKernel(dtype="bf16", kernel="never", latency_s=0, bandwidth_share=4.0, chosen=False),
    )
    machine = on(experts=rows, experts_flops_share={"1": 0.5, "64": 0.25})

    def time(seconds: float = 0.0, flops: float = 0.0, experts: int = 64) -> float:
        load = ExpertLoad(experts, 2, 1, 1.0)
        one = Operator("x", "experts", 1, flops=flops, weight_bytes=seconds * BANDWIDTH, experts=load)
        return float(sum(operator_time(one, machine)))

    assert time(1e-6) == pytest.approx(1e-6 + 4e-6)
    assert time(100e-6) == pytest.approx(10e-6 + 200e-6)
    # Many experts compute at a smaller share: by the largest count that was reached.
    assert [time(flops=PEAK / 1000, experts=count) for count in (63, 64, 65)] == pytest.approx(
        [1e-6 + 2e-3, 1e-6 + 4e-3, 1e-6 + 4e-3]
    )


def test_experts_that_are_not_fused_are_two_multiplications() -> None:
    rows = (GemmKernel(dtype="bf16", latency_s=3e-6, bandwidth_share=0.5, flops_share=0.5),)
    machine = on(Profile("x", "x", fused_experts=False), gemm=rows)
    load = ExpertLoad(8, 2, 1, 1.0)
    reading = Operator(
        "x", "experts", 1, weight_bytes=BANDWIDTH / 2000, activation_bytes=BANDWIDTH / 2000, experts=load
    )
    assert operator_time(reading, machine) == (pytest.approx(6e-6), pytest.approx(2e-3))
    computing = Operator("x", "experts", 1, flops=PEAK / 1000, experts=load)
    assert operator_time(computing, machine) == (pytest.approx(6e-6), pytest.approx(2e-3))


def test_a_range_is_of_the_span_of_versions_where_it_has_one(machine: Callable[..., Machine]) -> None:
    # The most special name that the data file has: without one of the engine's own, all engines'.
    known = machine()._replace(profile=Profile("no-such", "no-such"))
    assert range_around(known, False, "decode").kind == "dense-decode"
    assert range_around(known, True, "prompt").kind == "moe-prompt"
