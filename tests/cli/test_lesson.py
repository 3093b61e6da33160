"""The lessons' figures through the commands. Source: ML Systems lesson 12 (LLM inference serving), sections 3, 4, 8."""

import pytest

from tests.cli.conftest import Cli

IDEAL = "--gpu h100-sxm --engine ideal --kv-memory 50GB"


def test_memory_and_batch(cli: Cli) -> None:
    result = cli(f"size llama-3-8b {IDEAL} --context 2048 --json").result
    assert result["kv_cache_bytes_per_token"] == 131072
    assert round(result["weight_bytes_per_gpu"] / 1e9, 1) == 16.1
    assert result["kv_cache_size_tokens"] == 381469
    assert result["max_batch"] == 186
    assert {row["context"]: row["max_batch"] for row in result["by_context"]} == {2048: 186, 8192: 46}


def test_memory_of_llama_2(cli: Cli) -> None:
    result = cli(f"size llama-2-7b {IDEAL} --context 4096 --json").result
    assert result["kv_cache_bytes_per_token"] == 524288
    assert result["max_batch"] == 23


def test_largest_batch_at_4096(cli: Cli) -> None:
    assert cli(f"size llama-3-8b {IDEAL} --context 4096 --json").result["max_batch"] == 93


# batch, GB, TFLOP and its decimals, FLOP/byte, memory ms, compute ms, tokens/s
STEPS = [
    (1, 16.3, 0.017, 3, 1.0, 4.87, 0.02, 205),
    (8, 18.2, 0.14, 2, 7.5, 5.44, 0.14, 1472),
    (64, 33.2, 1.10, 2, 33.0, 9.92, 1.11, 6450),
    (186, 66.0, 3.19, 2, 48.3, 19.70, 3.22, 9442),
]


@pytest.mark.parametrize("batch, gb, tflop, places, intensity, memory_ms, compute_ms, speed", STEPS)
def test_step(
    cli: Cli,
    batch: int,
    gb: float,
    tflop: float,
    places: int,
    intensity: float,
    memory_ms: float,
    compute_ms: float,
    speed: int,
) -> None:
    result = cli(f"step llama-3-8b {IDEAL} --context 2048 --batch {batch} --json").result
    assert round(result["bytes"] / 1e9, 1) == gb
    assert round(result["flops"] / 1e12, places) == tflop
    assert round(result["intensity_flop_per_byte"], 1) == intensity
    assert round(result["memory_time_s"] * 1e3, 2) == memory_ms
    assert round(result["compute_time_s"] * 1e3, 2) == compute_ms
    assert result["bound_s"] == max(result["memory_time_s"], result["compute_time_s"])
    assert result["output_tokens_per_s"] == pytest.approx(speed, abs=0.75)  # the lesson takes 8.03e9 parameters
    assert result["estimate_s"] is None  # `ideal` is the bound alone
    assert round(result["ridge_flop_per_byte"]) == 295


def test_thresholds(cli: Cli) -> None:
    result = cli(f"step llama-3-8b {IDEAL} --context 2048 --batch 64 --json").result
    rows = {(row["d"], row["f"]): row["rows"] for row in result["matmul_thresholds"]}
    assert round(rows[(4096, 4096)], 1) == 344.9
    assert round(rows[(4096, 14336)], 1) == 325.4


def test_short_contexts_are_compute_bound(cli: Cli) -> None:
    result = cli(f"step llama-3-8b {IDEAL} --context 128 --batch 512 --json").result
    assert round(result["compute_time_s"] * 1e3, 2) == 8.35
    assert round(result["memory_time_s"] * 1e3, 2) == 7.36
    assert round(result["intensity_flop_per_byte"]) == 335
    assert result["limit"] == "compute"


@pytest.mark.parametrize("batch, context, ms", [(64, 4096, 15.05), (64, 1024, 7.36), (32, 4096, 9.92)])
def test_curve_has_the_same_points(cli: Cli, batch: int, context: int, ms: float) -> None:
    result = cli(f"curve llama-3-8b {IDEAL} --context {context} --batch {batch} --json").result
    (point,) = result["points"]
    assert round(point["bound_s"] * 1e3, 2) == ms


def test_kv_of_one_sequence_and_of_32(cli: Cli) -> None:
    (model,) = cli("kv llama-2-7b --context 4096 --batch 32 --json").result["models"]
    (point,) = model["by_context"]
    assert point["bytes"] == 2 * 2**30
    assert cli("kv llama-2-7b --context 4096 --batch 32").out.count("64.00 GiB") >= 1


def test_kv_of_mla_is_the_latent(cli: Cli) -> None:
    (model,) = cli("kv deepseek-v3 --json").result["models"]
    assert model["bytes_per_token"] == 61 * 576 * 2
