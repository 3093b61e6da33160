"""llama.cpp's kernels at round constants: specs/ggml.py's formulas worked out by hand."""

from math import exp
from typing import Any

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.counting.work import ExpertLoad, Operator
from kvcalc.specs.base import replace
from kvcalc.specs.build import build
from kvcalc.specs.ggml import GgmlKernels, OnHost, Parts, Skips, Split
from kvcalc.specs.gpu import Link
from kvcalc.specs.kernels import Kernels
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.ggml import attention_flops, busy_share, launched, pipelined
from kvcalc.timing.operators.times import operator_time

GPU = replace(
    load_gpu("rtx4090"),
    memory_bandwidth_bytes_per_s=1e12,
    peak_flops={"fp16": 100e12, "int8": 200e12, "fp32": 20e12},
    links=(Link(name="pcie", bandwidth_bytes_per_s=50e9),),
)
KERNELS = build(
    GgmlKernels,
    {
        "name": "round", "backend": "cuda", "since": "2025-01", "peak": "int8",
        "bandwidth_share": {"legacy": 0.5, "k": 0.8, "mx": 0.4, "plain": 0.9},
        "prompt_bandwidth_share": {"legacy": 0.25, "k": 0.4, "mx": 0.2, "plain": 0.45},
        "flops_share": {"legacy": 0.3, "k": 0.5, "mx": 0.2, "plain": 0.6},
        "fill_rows": 16, "experts_flops_share": 0.5, "tile_rows": 4,
        "widest_tile": 32, "idle_share": 0.5, "cache_share": 0.5, "cache_share_no_flash": 0.2,
        "attention_flops_share": 0.5, "attention_flops_share_no_flash": 0.25, "scores_passes": 3.0,
        "elementwise_share": 0.25, "launch_s": 1e-6, "many_launch_s": 3e-6, "experts_s": 10e-6, "state_s": 20e-6,
        "state_share": 0.05,
        "evidence": "round numbers",
    },
)  # fmt: skip
PARTS = Parts(
    split=Split(hop_s=0.4e-3, parameters=(1e9, 1e9 * exp(2)), busy=(0.75, 0.25), evidence=""),
    host=OnHost(share=0.7, experts_share=0.47, copy_share=0.8, switch_s=30e-6, by_hand=(), note=""),
)


def machine_with(**said: Any) -> Machine:
    return Machine(GPU, Kernels(evidence=""), Profile("x", "x"), ggml=KERNELS, parts=PARTS, **said)


def time(kind: Any, flash: bool = True, host: float = 100e9, **fields: Any) -> tuple[float, float]:
    machine = machine_with(flash_attention=flash, host_bandwidth=host)
    latency, work = operator_time(Operator("x", kind, 1, **fields), machine)
    return latency, work


def q4(rows: float, **more: Any) -> tuple[float, float]:
    """1 GB of q4_k and 2 TFLOP; rates 0.8 and 0.4 of 1 TB/s, half of 200 TFLOP/s."""
    return time("gemm", weight_bytes=1e9, flops=2e12, format="q4_k", bits=4.5, rows=rows, **more)


def test_one_row_reads_and_more_fill_tiles() -> None:
    # Two launches; 1.25 ms of reading for up to eight rows, 2.5 ms for more; 20 ms of computing, and 16 rows wasted.
    assert q4(1) == (pytest.approx(2e-6), pytest.approx(1.25e-3))
    assert q4(8) == (pytest.approx(6e-6), pytest.approx(1.25e-3 + 20e-3 * 24 / 8))
    assert q4(9) == (pytest.approx(6e-6), pytest.approx(2.5e-3 + 20e-3 * 25 / 9))
    assert q4(1, tensors=3)[0] == pytest.approx(6e-6)  # the file keeps apart what engines fuse
    # 16-bit weights compute at a share of the fp16 peak.
    plain = time("gemm", weight_bytes=1e9, flops=2e12, format="bf16", bits=16, rows=16)
    assert plain[1] == pytest.approx(1e9 / 0.45e12 + 2e12 / 60e12 * 32 / 16)
    legacy = time("gemm", weight_bytes=1e9, flops=2e12, format="q8_0", bits=8.5, rows=16)
    assert legacy[1] == pytest.approx(1e9 / 0.25e12 + 2e12 / 60e12 * 32 / 16)


def test_the_rows_of_one_expert_share_a_tile() -> None:
    def experts(tokens: float, rows: float, woken_ranks: int = 1) -> tuple[float, float]:
        load = ExpertLoad(8, 8, tokens, 1.0, woken_ranks)  # every token wakes all eight
        return time("experts", weight_bytes=1e9, flops=2e12, format="q4_k", bits=4.5, rows=rows, experts=load)

    # One token: bytes alone. Four tokens are 32 rows, four an expert; half the rate, and four rows wasted in each. From
    # nine tokens on they are read by the kernels of many rows, in tiles as wide as all tokens: each expert gets nine,
    # and has 1 / (1 - exp(-16/9)) tiles of 16 on average; idle columns cost half. Reading and computing overlap.
    assert experts(1, 8) == (pytest.approx(2e-6 + 10e-6), pytest.approx(1.25e-3))
    assert experts(4, 32) == (pytest.approx(6e-6 + 10e-6), pytest.approx((1.25e-3**2 + (40e-3 * 8 / 4) ** 2) ** 0.5))
    idle = 16 / (1 - exp(-16 / 9)) - 9
    assert experts(9, 72)[1] == pytest.approx((2.5e-3**2 + (40e-3 * (13 + idle / 2) / 9) ** 2) ** 0.5)
    # Tiles are 32 columns wide at most; 80 rows an expert have 1 / (1 - exp(-0.4)) of them.
    idle = 32 / (1 - exp(-0.4)) - 80
    assert experts(80, 640)[1] == pytest.approx((2.5e-3**2 + (40e-3 * (84 + idle / 2) / 80) ** 2) ** 0.5)


def test_a_cache_is_read_at_its_share_and_a_state_waits() -> None:
    assert time("attention", cache_bytes=1e9, rows=1) == (pytest.approx(2e-6), pytest.approx(2e-3))
    assert time("attention", flash=False, cache_bytes=1e9, rows=1)[1] == pytest.approx(5e-3)
    assert time("state", cache_bytes=1e9, rows=1, context=1) == (pytest.approx(22e-6), pytest.approx(2e-3))
    # A prompt's tokens pass through the state one after the other: 100 of 101 at 0.05 of 20 TFLOP/s.
    prompt = time("state", cache_bytes=1e9, flops=101e6, rows=101, context=101)
    assert prompt[0] == pytest.approx(6e-6 + 20e-6 + 100e6 / 1e12)
    # One token each of many sequences hides behind reading their states.
    assert time("state", cache_bytes=1e9, flops=101e6, rows=101, context=1)[0] == pytest.approx(6e-6 + 20e-6)
    assert time("elementwise", activation_bytes=1e9, rows=1) == (pytest.approx(9e-6), pytest.approx(4e-3))
    assert time("embedding", activation_bytes=1e9, rows=1) == (0, pytest.approx(4e-3))


def test_without_flash_attention_scores_pass_the_memory() -> None:
    fields = {"flops": 4e12, "cache_bytes": 1e9, "rows": 512, "head_dim": 100}
    # 80 ms at half of 100 TFLOP/s; without it 160, and 1e10 scores (4 · 100 FLOPs each) of four bytes pass three times.
    assert time("prefill_attention", **fields)[1] == pytest.approx(2e-3 + 80e-3)
    assert time("prefill_attention", flash=False, **fields)[1] == pytest.approx(2e-3 + 160e-3 + 3 * 4 * 1e10 / 1e12)


@pytest.mark.parametrize("rows, skips, computed", [
    (512, None, 17), (2048, None, 17),  # all cells: 4 TFLOP of what is seen, 3 of later tokens, 10 behind a window
    (512, Skips(since="", tokens=1024, behind=False), 17), (1024, Skips(since="", tokens=1024, behind=False), 14),
    (1, Skips(since="", tokens=1, behind=True), 4),
])  # fmt: skip
def test_attention_computes_what_the_mask_hides_where_kernels_do_not_skip_it(
    rows: int, skips: Skips | None, computed: float
) -> None:
    operator = Operator(
        "x", "prefill_attention", 1, flops=4e12, later_flops=3e12, behind_flops=10e12, rows=rows, head_dim=100
    )
    assert attention_flops(operator, machine_with(skips=skips)) == computed * 1e12
    # At half of 100 TFLOP/s.
    assert operator_time(operator, machine_with(skips=skips))[1] == pytest.approx(computed / 50)


@pytest.mark.parametrize("rows, copied", [(1, False), (31, False), (32, True), (512, True)])
def test_the_host_reads_for_few_and_copies_for_many(rows: int, copied: bool) -> None:
    # 1 GB at 0.7 of 100 GB/s, or over the link at 0.8 of 50 GB/s and then multiplied there.
    latency, work = q4(rows, place="host")
    device = q4(rows)
    assert latency == pytest.approx(30e-6 + (device[0] if copied else 0))
    assert work == pytest.approx(1e9 / 40e9 + device[1] if copied else 1e9 / 70e9)


def test_a_copy_is_no_quicker_than_the_host_reads_it() -> None:
    # 1 GB at 0.7 of 20 GB/s, where the link would do 40 GB/s.
    _, work = q4(512, place="host", host=20e9)
    assert work == pytest.approx(1e9 / 14e9 + q4(512)[1])


def test_experts_of_the_host_are_read_slower() -> None:
    # 1 GB at 0.47 of 100 GB/s.
    fields = {"weight_bytes": 1e9, "flops": 2e12, "format": "q4_k", "bits": 4.5, "rows": 8, "place": "host"}
    assert time("experts", experts=ExpertLoad(8, 8, 1, 1.0, 1), **fields)[1] == pytest.approx(1e9 / 47e9)


def test_launches_and_stages() -> None:
    assert [launched(10, rows, 1e-6, 3e-6) for rows in (1, 2, 100)] == pytest.approx([10e-6, 30e-6, 30e-6])
    # 0.70 of four stages' time is work: sixteen ubatches take one and fifteen parts of 2.8.
    assert pipelined(16, 4, 0.7) == pytest.approx(1 + 15 / 2.8)
    assert pipelined(16, 2, 0.4) == 16  # stages of a large model wait for each other
    assert pipelined(1, 4, 0.7) == 1
    # Halfway between 1 and e² billion parameters, as far as these, and no farther.
    halfway = [busy_share(PARTS.split, size) for size in (1e8, 1e9, 1e9 * exp(1), 1e9 * exp(2), 1e12)]
    assert halfway == pytest.approx([0.75, 0.75, 0.5, 0.25, 0.25])
    assert time("send", link_bytes=1e9, ranks=2) == (0.4e-3, 0)
