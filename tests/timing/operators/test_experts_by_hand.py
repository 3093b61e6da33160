"""Which row of constants an operator takes, and what experts, prompts and sums make of it, at round numbers."""

from typing import Any

import pytest
from timing.operators.test_ggml_by_hand import KERNELS, PARTS
from timing.operators.test_kernels_by_hand import BANDWIDTH, H100, PEAK, on

from kvcalc.catalog.models import load_model
from kvcalc.counting.work import ExpertLoad, Operator
from kvcalc.specs.base import replace
from kvcalc.specs.calibration import Calibration
from kvcalc.specs.deployment import Deployment, Layout
from kvcalc.specs.formats import BF16, FP8_TENSOR
from kvcalc.specs.gpu import Link
from kvcalc.specs.kernels import AllReduceKernel, ExpertsKernel, GemmKernel, PrefillAttentionKernel
from kvcalc.specs.model import LayerGroup, ModelSpec, Tensor
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.estimate import kernel_sums, operator_times
from kvcalc.timing.machine import machine_of
from kvcalc.timing.operators.experts import shared_tiles
from kvcalc.timing.operators.ggml_tiles import Tiles, woken_experts
from kvcalc.timing.operators.times import operator_time
from kvcalc.timing.peaks import joining_link
from kvcalc.timing.ranges import kinds
from kvcalc.timing.replica import Replica
from kvcalc.timing.roofline import Bound, bound, operator_limit

SHARES = {1: 0.5, 32: 0.0625}


@pytest.mark.parametrize(
    "experts, rows, share",
    [
        (8, 100, 0.5),
        (256, 1, 0.0625),
        (256, 256, 0.0625),  # from here on tiles fill: eight times the rows for eight times the share
        (256, 512, 0.125),
        (256, 1024, 0.25),
        (256, 2048, 0.5),
        (256, 10_000, 0.5),
    ],
)
def test_tiles_of_many_experts_fill_with_rows(experts: int, rows: float, share: float) -> None:
    assert shared_tiles(SHARES, experts, rows) == pytest.approx(share)
    assert shared_tiles({1: 0.25}, experts, rows) == 0.25
    assert shared_tiles({1: 0.2, 4: 0.3}, experts, rows) == 0.3  # never less than what was measured


def test_experts_compute_at_the_share_of_their_rows() -> None:
    """All 64 experts are woken by so many tokens: 65,536 rows are 1,024 each."""
    rows = (ExpertsKernel(dtype="bf16", kernel="x", latency_s=2e-6, bandwidth_share=0.5),)
    shares = {str(least): share for least, share in SHARES.items()}
    load = ExpertLoad(64, 8, 1e9, 1.0)
    one = Operator("x", "experts", 1, flops=PEAK / 1000, rows=64 * 1024, experts=load)
    for sustained in (1.0, 0.5):
        machine = on(experts=rows, experts_flops_share=shares, sustained_share=sustained)._replace(busy=True)
        assert operator_time(one, machine) == (2e-6, pytest.approx(1e-3 / (0.25 * sustained)))


def test_the_shortest_latency_is_the_experts_own() -> None:
    rows = tuple(
        ExpertsKernel(dtype="bf16", kernel=name, latency_s=latency, bandwidth_share=share)
        for name, latency, share in (("slow", 10e-6, 0.5), ("soon", 1e-6, 0.25))
    )
    one = Operator("x", "experts", 1, weight_bytes=BANDWIDTH / 1000, experts=ExpertLoad(8, 2, 1, 1.0))
    latency, work = operator_time(one, on(experts=rows, experts_flops_share={"1": 0.5}))
    assert (latency, latency + work) == (1e-6, pytest.approx(10e-6 + 2e-3))


def rows_by_type(kind: Any, *names: str) -> tuple[Any, ...]:
    """A row for each element type, the nth of latency n µs."""
    more: dict[str, Any] = {"kernel": "x"} if kind is ExpertsKernel else {"flops_share": 0.5}
    return tuple(
        kind(dtype=name, latency_s=n * 1e-6, bandwidth_share=0.5, **more) for n, name in enumerate(names, start=1)
    )


@pytest.mark.parametrize(
    "form, bits, compute, latency",
    [
        ("bf16", 16, "bf16", 1),
        ("fp8", 8, "fp8", 2),
        ("fp8-block", 8, "fp8", 2),
        ("gptq", 4, "bf16", 3),  # four bits, widened: as mxfp4
        ("odd", 4.5, "bf16", 1),
        ("odd", 5, "bf16", 1),
        ("mxfp4", 4, "bf16", 3),
    ],
)
def test_rows_of_experts_by_format(form: str, bits: float, compute: str, latency: float) -> None:
    machine = on(experts=rows_by_type(ExpertsKernel, "bf16", "fp8", "mxfp4"), experts_flops_share={"1": 0.5})
    one = Operator("x", "experts", 1, format=form, bits=bits, compute=compute, experts=ExpertLoad(8, 2, 1, 1.0))
    assert operator_time(one, machine)[0] == pytest.approx(latency * 1e-6)


@pytest.mark.parametrize("bits, latency", [(4, 2), (8, 2), (8.5, 1), (9, 1), (16, 1)])
def test_any_row_is_of_eight_bits_and_fewer(bits: float, latency: float) -> None:
    machine = on(gemm=rows_by_type(GemmKernel, "bf16", "any"))
    one = Operator("x", "gemm", 1, format="other", bits=bits, compute="bf16")
    assert operator_time(one, machine)[0] == pytest.approx(latency * 1e-6)


def test_a_gpu_that_never_pauses_computes_at_what_power_leaves() -> None:
    gemm = (GemmKernel(dtype="bf16", latency_s=0, bandwidth_share=0.5, flops_share=0.5),)
    prompt = (PrefillAttentionKernel(dtype="bf16", latency_s=0, bandwidth_share=0.5, flops_share=0.5),)
    machine = on(gemm=gemm, prefill_attention=prompt, sustained_share=0.8)
    for kind in ("gemm", "prefill_attention"):
        one = Operator("x", kind, 1, flops=PEAK / 1000)  # type: ignore[arg-type]
        assert operator_time(one, machine)[1] == pytest.approx(1e-3 / 0.5)
        assert operator_time(one, machine._replace(busy=True))[1] == pytest.approx(1e-3 / (0.5 * 0.8))


def test_an_operators_time_is_its_part_of_the_sum() -> None:
    """Three calls of 2 µs and 1 ms, and two of a send of 4 µs: kernels halved, launches fourfold, links threefold."""
    profile = Profile("x", "x", kernel_factor=0.5, launch_factor=4.0, link_factor=3.0)
    gemm = (GemmKernel(dtype="bf16", latency_s=2e-6, bandwidth_share=0.5, flops_share=0.5),)
    rows = (AllReduceKernel(library="nccl", gpus=2, latency_s=4e-6, link_share=0.5),)
    machine = on(profile, gemm=gemm, all_reduce=rows)
    link = H100.link("nvlink")
    assert link is not None
    operators = (
        Operator("a", "gemm", 3, weight_bytes=BANDWIDTH / 2000),
        Operator("b", "send", 2, link_bytes=link.bandwidth_bytes_per_s / 1000, ranks=2),
    )
    matrix, send = operator_times(operators, machine)
    assert (matrix.latency_s, matrix.work_s) == (pytest.approx(0.5 * 4 * 3 * 2e-6), pytest.approx(0.5 * 3 * 1e-3))
    sent = 1e-3 / 0.5  # all of it, at half the link's rate
    assert (send.latency_s, send.work_s) == (pytest.approx(0.5 * 3 * 4 * 2 * 4e-6), pytest.approx(0.5 * 3 * 2 * sent))
    assert matrix.time_s + send.time_s == pytest.approx(kernel_sums(operators, machine).total_s(profile))


@pytest.mark.parametrize("tokens, seconds", [(1, 0.02), (8, 0.02), (9, 0.01), (100, 0.01)])
def test_experts_are_read_by_the_kernels_of_one_row_or_of_many(tokens: float, seconds: float) -> None:
    assert woken_experts((0.02, 0.01), 0.0, tokens, 1, Tiles(128, 5, 0.2)) == pytest.approx(seconds)


def test_links_join_no_more_than_they_say() -> None:
    bridge = Link(name="nvlink", bandwidth_bytes_per_s=300e9, gpus=2)
    gpu = replace(H100, links=(bridge, Link(name="pcie", bandwidth_bytes_per_s=64e9)))
    assert [joining_link(gpu, gpus).name for gpus in (2, 3)] == ["nvlink", "pcie"]


@pytest.mark.parametrize("timed, what", [("decode", "decode"), ("prompt", "prompts"), ("first-token", "prompts")])
def test_ranges_of_llama_cpp(timed: Any, what: str) -> None:
    machine = on()._replace(ggml=KERNELS)
    assert kinds(machine, False, timed) == (f"llamacpp-cuda-dense-{what}", f"llamacpp-cuda-{what}")
    assert kinds(machine._replace(offloads=True), True, timed) == (
        f"llamacpp-offload-moe-{what}", f"llamacpp-offload-{what}",
    )  # fmt: skip


def test_ubatches_overlap_in_the_stages_of_a_layer_split() -> None:
    """Of four stages of 2.0075e9 parameters 0.75 - 0.5 · ln 2.0075 / 2 = 0.5758 of the time is work."""
    model, layout = load_model("llama-3-8b"), Layout(pipeline_parallel_size=4)
    replica = Replica(model, layout, on()._replace(ggml=KERNELS, parts=PARTS))
    assert replica.overlap(16) == pytest.approx((1 + 15 / (4 * 0.57578)) / 16, rel=1e-4)
    assert replica.overlap(1) == 1
    assert Replica(model, layout, on()).overlap(16) == 1


def test_the_type_of_most_weights_sets_the_peak() -> None:
    """One layer of a million elements in bf16, ten of a quarter each in fp8."""
    groups = tuple(
        LayerGroup(
            layers=tuple(layers),
            tensors=(Tensor(name="w", shape=(side, side), category="mlp", matmul=True, format=form),),
        )
        for layers, side, form in ((range(1), 1000, BF16), (range(1, 11), 500, FP8_TENSOR))
    )
    spec = ModelSpec(name="x", family="x", hidden=64, vocab=100, groups=groups)
    assert Replica(spec, Layout(), on()).peak_flops == H100.peak("fp8")
    assert Replica(replace(spec, groups=groups[:1]), Layout(), on()).peak_flops == PEAK


def test_a_calibration_is_of_its_engine() -> None:
    gpu = replace(H100, calibration=Calibration(engine="vllm", decode=2.0, prompt=2.0, overhead=2.0))
    assert machine_of(gpu, Deployment()).profile != machine_of(H100, Deployment()).profile
    other = Deployment(engine="sglang")
    assert machine_of(gpu, other).profile == machine_of(H100, other).profile


def test_what_binds_a_step_and_an_operator() -> None:
    half, whole, more = (
        Operator("x", "gemm", 2, flops=share * PEAK, weight_bytes=BANDWIDTH) for share in (0.5, 1, 1.5)
    )
    assert bound((half, whole), H100).flops == 3 * PEAK
    assert [operator_limit(one, H100) for one in (half, whole, more)] == ["memory", "memory", "compute"]
    assert [Bound(0, 0, 0, memory, 1.0).limit for memory in (0.9, 1.0, 1.1)] == ["compute", "memory", "memory"]
