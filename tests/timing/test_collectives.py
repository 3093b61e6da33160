"""Collectives by where the GPUs are: on one board, over PCIe with and without peer access, in several nodes."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.gpus import load_gpu
from kvcalc.counting.work import Operator
from kvcalc.specs.base import replace
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.collective import HOP_S, collective_seconds, ring_time
from kvcalc.timing.peaks import joining_link, networked, peer_access

Make = Callable[..., Machine]


def all_reduce(ranks: int, size: float) -> Operator:
    return Operator("all-reduce", "all_reduce", 1, link_bytes=size, ranks=ranks)


def seconds(machine: Machine, ranks: int, size: float) -> float:
    return float(sum(collective_seconds(all_reduce(ranks, size), machine)))


@pytest.mark.parametrize(
    "gpu, engine, ranks, elements, measured_us",
    [  # ai-dynamo/aiconfigurator, all-reduce of bf16 in a CUDA graph: vLLM 0.24 and TensorRT-LLM 1.3.0rc20
        ("b200-sxm", "vllm", 2, 1024, 7.0),
        ("b200-sxm", "vllm", 8, 16_384, 8.2),
        ("h100-sxm", "vllm", 4, 262_144, 11.4),
        ("h100-sxm", "trtllm", 8, 1024, 3.4),
        ("h200-sxm", "vllm", 2, 67_108_864, 463.0),
    ],
)
def test_an_engine_has_its_own_all_reduce(
    machine: Make, gpu: str, engine: str, ranks: int, elements: int, measured_us: float
) -> None:
    assert seconds(machine(gpu, engine), ranks, 2 * elements) == pytest.approx(measured_us * 1e-6, rel=0.2)


def test_cards_without_peer_access_go_through_the_host(machine: Make) -> None:
    assert peer_access(load_gpu("rtx-pro-6000-se"))
    assert not peer_access(load_gpu("rtx5090"))
    for size in (16e3, 64e6):
        assert seconds(machine("rtx5090"), 2, size) > 1.5 * seconds(machine("rtx-pro-6000-se"), 2, size)


@pytest.mark.parametrize("size, measured_us", [(256, 24.6), (8192, 24.2), (65_536, 24.1)])
def test_small_messages_between_eight_cards_that_reach_each_other(machine: Make, size: int, measured_us: float) -> None:
    """NCCL on eight RTX PRO 6000 behind switches: hardware/pcie-bandwidth.md of voipmonitor/rtx6kpro."""
    assert seconds(machine("rtx-pro-6000-se"), 8, size) == pytest.approx(measured_us * 1e-6, rel=0.3)


def test_what_peer_access_saves_two_cards(machine: Make) -> None:
    """noonghunna/club-3090 issue 873: 80 all-reduces of 4 KiB a token, 288.1 against 222.8 tokens/s on two RTX 5090."""
    saved = seconds(machine("rtx5090"), 2, 4096) - seconds(machine("rtx-pro-6000-se"), 2, 4096)
    assert 80 * saved == pytest.approx(1 / 222.8 - 1 / 288.1, rel=0.15)


def test_a_group_that_leaves_its_node_pays_for_every_round(machine: Make) -> None:
    inside, two, four = (seconds(machine("h100-sxm"), ranks, 14e3) for ranks in (8, 16, 32))
    assert two - inside >= HOP_S * 0.9
    assert four - two == pytest.approx(HOP_S, rel=0.05)


def test_a_network_of_another_speed(machine: Make) -> None:
    slow = machine("h100-sxm")._replace(gpu=networked(load_gpu("h100-sxm"), 5e9))
    assert joining_link(slow.gpu, 16).bandwidth_bytes_per_s == 5e9
    assert joining_link(slow.gpu, 8).name == "nvlink"
    assert seconds(slow, 16, 64e6) > 5 * seconds(machine("h100-sxm"), 16, 64e6)
    bare = replace(load_gpu("h100-sxm"), links=())
    assert joining_link(networked(bare, 1e9), 16).bandwidth_bytes_per_s == 1e9


@given(st.floats(1, 1e9), st.integers(2, 64), st.floats(1e9, 1e12), st.floats(0, 1e-4), st.floats(0, 1e-4))
def test_a_larger_message_never_takes_less(size: float, gpus: int, link: float, latency: float, root: float) -> None:
    small, large = (sum(ring_time(bytes_, gpus, link, latency, 0.8, root)) for bytes_ in (size, 2 * size))
    assert latency <= small <= large
