"""The data files of this room: whole, plausible, and keyed by engines and GPUs, never by models."""

import json
import tomllib
from itertools import product
from pathlib import Path

import pytest

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.catalog.cards import card_names
from kvcalc.catalog.files.toml import data_dir
from kvcalc.catalog.gpus import all_gpus, load_gpu
from kvcalc.catalog.kernels import load_kernels
from kvcalc.cli.app import run
from kvcalc.counting.work import Operator
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.build import build
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import AttentionKernel, GemmKernel, Kernels
from kvcalc.timing import engine_profiles as profile_file
from kvcalc.timing.engine_profiles import profile_for
from kvcalc.timing.machine import Machine, machine_of, maker_of, with_profile
from kvcalc.timing.operators.times import operator_time
from kvcalc.timing.ranges import FILE, Spread, Timed, knowledge, range_around, spread, spreads

TIMED: tuple[Timed, ...] = ("decode", "prompt", "first-token")
KERNEL_FILES = sorted((data_dir("gpu_specs") / "kernels").glob("*.toml"))


@pytest.mark.parametrize("path", KERNEL_FILES, ids=lambda path: path.stem)
def test_kernel_files_read(path: Path) -> None:
    table = tomllib.loads(path.read_text())
    if path.stem != "classes":
        assert build(Kernels, table).evidence
    else:
        assert all((path.parent / f"{one['like']}.toml").is_file() for one in table["class"])


@pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.name)
def test_every_gpu_has_complete_kernels(gpu: GpuSpec) -> None:
    kernels = load_kernels(gpu)
    rows = kernels.gemm, kernels.attention, kernels.latent_attention, kernels.prefill_attention, kernels.experts
    assert all(rows)
    assert all((kernels.elementwise_share, kernels.experts_flops_share))
    assert {row.library for row in kernels.all_reduce} >= {"nccl", "pcie"}


def test_kernels_come_from_the_nearest() -> None:
    assert load_kernels(load_gpu("h100-sxm")).like is None
    assert load_kernels(load_gpu("h100-pcie")).like == "h100-sxm"  # the same chip
    assert load_kernels(load_gpu("h200-nvl")).like == "h200-sxm"  # by name, before the chip
    assert load_kernels(load_gpu("mi300x")).like == "amd-instinct"
    assert load_kernels(load_gpu("gaudi3")).like == "generic"


def test_a_users_own_kernels_come_first() -> None:
    row = GemmKernel(dtype="bf16", latency_s=1e-6, bandwidth_share=0.5, flops_share=0.5)
    mine = replace(load_gpu("h100-sxm"), kernels=Kernels(evidence="measured here", gemm=(row,)))
    kernels = load_kernels(mine)
    assert kernels.gemm[0] == row
    assert {one.dtype for one in kernels.gemm} >= {"bf16", "fp8", "nvfp4"}  # the rest is filled
    assert kernels.like is None


def test_profiles_follow_versions_and_vendors() -> None:
    assert profile_for("vllm").name == profile_for("vllm", "0.14.0").name == "vllm-0.14"
    assert profile_for("vllm", "0.18.0", "AMD CDNA 3").name == "vllm-0.14-amd"
    assert profile_for("vllm", "0.12.0").name == "vllm"
    assert profile_for("vllm", "0.5.4").name == "vllm-2024"
    assert profile_for("vllm", "0.5.4", "AMD").name == "vllm-2024-amd"
    assert profile_for("vllm", "0.1").name == "vllm-2024"  # before the first: the first
    assert profile_for("trtllm", "0.7.1").name == "trtllm-0.7"
    assert profile_for("vllm", "0.5.4", "AMD CDNA 3").name == "vllm-2024-cdna-3"
    assert profile_for("trtllm", "1.0.0rc3").name == "trtllm-1.0"
    assert profile_for("trtllm", "1.1.0rc2.post2").name == profile_for("trtllm").name == "trtllm"
    assert profile_for("sglang", "0.5.1").lock_step is not profile_for("sglang").lock_step is False
    assert profile_for("ideal").name == "serving"


def test_a_profile_inherits_values_and_not_evidence() -> None:
    assert profile_for("sglang", "0.5.1").step_s == profile_for("ideal").step_s > 0
    assert profile_for("sglang", "0.5.1").points == 0 < profile_for("ideal").points


def test_no_constant_is_keyed_by_a_model() -> None:
    texts = [path.read_text() for path in (*KERNEL_FILES, FILE, profile_file.FILE)]
    keys = {word for text in texts for word in text.replace('"', " ").replace("=", " ").split()}
    assert not keys & set(card_names())


def test_ranges_hold_the_estimate() -> None:
    for table in tomllib.loads(FILE.read_text())["range"]:
        around = spread(table["kind"])
        assert 0 < around.low < 1 < around.high
    with pytest.raises(KvcalcError, match="no range"):
        spread("nonsense")


def test_a_users_attention_stands_for_every_library() -> None:
    row = AttentionKernel(dtype="bf16", library="any", latency_s=1e-6, bandwidth_share=0.4)
    mine = replace(load_gpu("h100-sxm"), kernels=Kernels(evidence="measured here", attention=(row,)))
    for engine in ("vllm", "trtllm"):
        machine = Machine(mine, load_kernels(mine), profile_for(engine))
        reading = Operator("attention", "attention", 1, cache_bytes=3.35e9)
        assert sum(operator_time(reading, machine)) == pytest.approx(1e-6 + 1e-3 / 0.4)


@pytest.mark.parametrize("timed", ["decode", "prompt", "first-token"])
@pytest.mark.parametrize("routed", [False, True])
@pytest.mark.parametrize("gpu", ["h100-sxm", "a10g", "mi300x", "max-1550"])
def test_every_answer_has_a_range_that_is_wider_the_less_is_known(gpu: str, routed: bool, timed: Timed) -> None:
    def around(name: str) -> Spread:
        spec = load_gpu(name)
        return range_around(with_profile(spec, profile_for("vllm", None, maker_of(spec))), routed, timed)

    found, best = around(gpu), around("h100-sxm")
    assert found.high / found.low >= 0.9 * best.high / best.low
    assert knowledge(machine_named(gpu)) == {"h100-sxm": "measured", "a10g": "unmeasured"}.get(gpu, "judged")


def machine_named(gpu: str) -> Machine:
    return with_profile(load_gpu(gpu), profile_for("vllm"))


def test_a_gpu_that_was_not_measured_is_known_no_better_than_one_that_was() -> None:
    rows = {table["kind"]: table for table in tomllib.loads(FILE.read_text())["range"]}
    pairs = [(rows[kind], rows[f"{kind}-unmeasured"]) for kind in rows if f"{kind}-unmeasured" in rows]
    assert len(pairs) > 4
    assert all(other["low"] <= mine["low"] and mine["high"] <= other["high"] for mine, other in pairs)


def test_every_range_and_profile_is_reached_by_some_deployment() -> None:
    """What no command can ask for is not shipped: it would be checked by nobody."""
    engines = ("vllm", "sglang", "trtllm", "llamacpp")
    chosen, reached = set(), set()
    for spec in all_gpus():
        for engine in engines:
            for version in (None, *(one.since for one in profile_file.profiles() if one.engine == engine)):
                profile = profile_for(engine, version, maker_of(spec))
                chosen.add(profile.name)
                machine = with_profile(spec, profile)
                for routed, timed in product((False, True), TIMED):
                    reached.add(range_around(machine, routed, timed).kind)
    local = [Deployment(engine="llamacpp", n_gpu_layers=layers) for layers in (None, 1)]
    own = [*product(("rtx3090", "mi300x", "apple-m2-ultra", "arc-b580"), local)]
    for name, deployment in (*own, ("rtx3090", replace(local[0], backend="vulkan"))):
        machine = machine_of(load_gpu(name), deployment)
        reached |= {range_around(machine, routed, timed).kind for routed, timed in product((False, True), TIMED)}
    reached.add(range_around(machine_named("h100-sxm"), False, "decode", "eager").kind)
    assert {one.name for one in profile_file.profiles()} - chosen == {"serving"}  # what the others are like
    assert set(spreads()) == reached


# Measured steps in ms, batch 1 to 8: the hosts that `eager_layer_s` and `moe_eager_layer_s` are set by.
EAGER = [
    ("qwen2.5-7b --gpu a800-80g-sxm --batch 1 --context 500", 22.5),  # vllm-project/vllm-omni issue 7960
    ("llama-3.2-90b-vision --gpu h100-sxm -tp 4 --engine-version 0.9 --batch 1 --context 1024", 45.9),  # tt issue 379
    ("qwen3-30b-a3b --gpu rtx4090d -tp 4 --batch 8 --context 4250", 33.92),  # vllm-project/vllm issue 45709
    ("deepseek-v2-lite --gpu a100-80g-sxm --engine sglang --engine-version 0.3 --batch 1 --context 500", 31.0),  # 1369
    ("gpt-oss-120b --gpu gb10 --engine-version 0.19 --batch 1 --context 500", 38.5),  # conselara.dev
]


@pytest.mark.parametrize("command, measured_ms", EAGER, ids=[command.split()[0] for command, _ in EAGER])
def test_measured_steps_without_graphs_are_in_range(
    command: str, measured_ms: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["step", *command.split(), "--enforce-eager", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["result"]["estimate_s"]
    assert found["low"] <= measured_ms / 1e3 <= found["high"]


@pytest.mark.parametrize(
    "flags", [{"enforce_eager": True}, {"cpu_offload_bytes": "4"}, {"tensor_parallel_size": "16"}], ids=str
)
def test_what_rests_on_one_report_has_the_range_of_a_judgement(flags: dict[str, object]) -> None:
    plain = Deployed(ask("llama-3-70b", {"gpu": "h100-sxm", "tensor_parallel_size": "8"})).replica
    found = Deployed(ask("llama-3-70b", {"gpu": "h100-sxm", "tensor_parallel_size": "8"} | flags)).replica
    assert plain.knowledge == "measured"
    known = "eager" if "enforce_eager" in flags else "judged"
    assert found.knowledge == known
    assert range_around(found.machine, False, "decode", found.knowledge).kind == f"dense-decode-{known}"
    assert range_around(found.machine, True, "decode", found.knowledge).kind == "moe-decode-judged"
