"""Every figure that the lessons print comes out of the public formulas, rounded as printed."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvcalc import units
from kvcalc.formulas import cache, collectives, matmul, paging, prefill, sampling, speculative, step

LESSON = tomllib.loads((Path(__file__).parents[1] / "data" / "lesson.toml").read_text(encoding="utf-8"))
GPU = LESSON["gpu"]
P, BW = GPU["peak_flops"], GPU["bandwidth_bytes_per_s"]
CASES = [(figure, case) for figure, group in LESSON["figure"].items() for case in group["cases"]]
ONE = {
    "B": 1, "KiB": units.KIB, "MiB": units.MIB, "GiB": units.GIB, "MB": 1e6, "GB": 1e9, "TFLOP": 1e12,
    "s": 1, "ms": units.MILLISECOND, "%": 0.01,
}  # fmt: skip


def per_token(m: dict[str, Any]) -> float:
    return cache.kv_bytes_per_token(m["layers"], m["kv_heads"], m["head_dim"], m["bytes_per_element"])


def weights(m: dict[str, Any]) -> float:
    return cache.weight_bytes(m["parameters"], m["bytes_per_element"])


def step_bytes(m: dict[str, Any], c: dict[str, Any]) -> float:
    return step.decode_step_bytes(weights(m), c["batch"], cache.kv_cache_bytes(per_token(m), c["context"]))


def step_flops(m: dict[str, Any], c: dict[str, Any]) -> float:
    attention = step.attention_flops_per_sequence(m["layers"], m["query_heads"], m["head_dim"], c["context"])
    return step.decode_step_flops(m["parameters"], c["batch"], attention)


def step_memory_time(m: dict[str, Any], c: dict[str, Any]) -> float:
    return step.memory_time(step_bytes(m, c), BW)


def step_time(m: dict[str, Any], c: dict[str, Any]) -> float:
    return step.roofline_time(step_memory_time(m, c), step.compute_time(step_flops(m, c), P))


def step_intensity(m: dict[str, Any], c: dict[str, Any]) -> float:
    of_step = step.intensity(step_flops(m, c), step_bytes(m, c))
    of_parts = step.decode_step_intensity(
        step.share(weights(m), step_bytes(m, c)),
        step.weight_intensity(c["batch"], m["bytes_per_element"]),
        step.cache_intensity(m["query_heads"], m["kv_heads"], m["bytes_per_element"]),
    )
    assert of_step == pytest.approx(of_parts)
    return of_step


def attention_flops(m: dict[str, Any], tokens: int, start: int = 0) -> float:
    return prefill.causal_attention_flops(m["layers"], m["query_heads"], m["head_dim"], tokens, start)


def prefill_flops(m: dict[str, Any], tokens: int, start: int = 0) -> float:
    return prefill.prefill_flops(m["parameters"], tokens, attention_flops(m, tokens, start))


def mixed_step_time(m: dict[str, Any], c: dict[str, Any]) -> float:
    chunk = prefill_flops(m, c["chunk"], c.get("chunk_start", 0))
    flops = prefill.mixed_step_flops(step_flops(m, c), chunk)
    compute = step.compute_time(flops, P, c.get("compute_efficiency", 1.0))
    return step.roofline_time(step.memory_time(prefill.mixed_step_bytes(step_bytes(m, c)), BW), compute)


def chunked_prefill_time(m: dict[str, Any], c: dict[str, Any]) -> float:
    shape = (m["parameters"], m["layers"], m["query_heads"], m["head_dim"])
    flops = prefill.chunked_prefill_flops(c["prompt"], c["chunk"], *shape)
    return sum(prefill.chunked_prefill_step_times(flops, step_memory_time(m, c), step_flops(m, c), peak_flops=P))


def live_lengths() -> Any:
    lengths = LESSON["lengths"]
    rng = np.random.default_rng(lengths["seed"])
    return rng.integers(lengths["low"], lengths["high"], size=lengths["requests"])


# What each figure of the file is, in public functions of (model, case).
FIGURES = {
    "kv_bytes_per_token": lambda m, c: per_token(m),
    "mla_elements_per_token": lambda m, c: cache.mla_elements_per_token(1, c["kv_lora_rank"], c["rope_head_dim"]),
    "kv_cache_bytes": lambda m, c: cache.kv_cache_bytes(per_token(m), c["context"], c["batch"]),
    "weight_bytes": lambda m, c: weights(m),
    "kv_tokens_that_fit": lambda m, c: cache.kv_tokens_that_fit(c["kv_memory_bytes"], per_token(m)),
    "kv_blocks_that_fit": lambda m, c: cache.kv_blocks_that_fit(c["kv_memory_bytes"], per_token(m), c["block_size"]),
    "max_batch": lambda m, c: cache.max_batch(c["kv_memory_bytes"], cache.kv_cache_bytes(per_token(m), c["context"])),
    "decode_step_bytes": step_bytes,
    "decode_step_flops": step_flops,
    "decode_step_intensity": step_intensity,
    "memory_time": step_memory_time,
    "compute_time": lambda m, c: step.compute_time(step_flops(m, c), P),
    "throughput": lambda m, c: step.throughput(c["batch"], step_time(m, c)),
    "step_time": step_time,
    "step_time_over_weights_only": lambda m, c: step_time(m, c) / step.memory_time(weights(m), BW),
    "ridge_point": lambda m, c: matmul.ridge_point(P, BW),
    "matmul_threshold_rows": lambda m, c: matmul.matmul_threshold_rows(matmul.ridge_point(P, BW), c["d"], c["f"]),
    "prefill_flops": lambda m, c: prefill_flops(m, c["prompt"]),
    "prefill_attention_share": lambda m, c: step.share(attention_flops(m, c["prompt"]), prefill_flops(m, c["prompt"])),
    "prefill_time": lambda m, c: prefill.prefill_time(
        weights(m), prefill_flops(m, c["prompt"]), BW, P, c.get("compute_efficiency", 1.0)
    ),
    "mixed_step_time": mixed_step_time,
    "free_chunk_tokens": lambda m, c: prefill.free_chunk_tokens(step_memory_time(m, c), P, m["parameters"], c["batch"]),
    "chunked_prefill_time": chunked_prefill_time,
    "transfer_time": lambda m, c: collectives.transfer_time(
        cache.kv_cache_bytes(per_token(m), c["context"]), c["link_bytes_per_s"]
    ),
    "recompute_time": lambda m, c: prefill.recompute_time(m["parameters"], c["prompt"], P),
    "sample_blocks": lambda m, c: (
        paging.blocks_for_tokens(c["prompt"], c["block_size"])
        if c["shared"]
        else paging.unshared_blocks(c["prompt"], c["block_size"], c["samples"])
    ),
    "shared_blocks_after_writes": lambda m, c: paging.shared_blocks_after_writes(
        c["prompt"], c["block_size"], c["samples"]
    ),
    "max_wasted_slots": lambda m, c: paging.max_wasted_slots(c["block_size"]),
    "live_tokens": lambda m, c: live_lengths().sum(),
    "reserved_slots": lambda m, c: paging.reserved_slots(c["requests"], c["max_len"]),
    "paged_slots": lambda m, c: paging.paged_slots(live_lengths(), c["block_size"]).sum(),
    "used_share": lambda m, c: paging.used_share(c["live"], c["slots"]),
    "tokens_per_pass": lambda m, c: speculative.tokens_per_pass(c["alpha"], c["gamma"]),
    "speculative_speedup": lambda m, c: speculative.speculative_speedup(
        speculative.tokens_per_pass(c["alpha"], c["gamma"]), c["gamma"], c["draft_cost_ratio"]
    ),
    "best_draft_length": lambda m, c: speculative.best_draft_length(c["alpha"], c["draft_cost_ratio"]),
    "draft_cost_ratio": lambda m, c: speculative.draft_cost_ratio(c["draft_params"], c["target_params"]),
    "acceptance_rate": lambda m, c: sampling.acceptance_rate(c["p"], c["q"]),
    "emitted_distribution": lambda m, c: sampling.emitted_distribution(c["p"], c["q"]),
    "verify_rows": lambda m, c: speculative.verify_rows(c["batch"], c["gamma"]),
}


def rounds_to(value: float, printed: str, nearest: float) -> bool:
    number, unit = printed.replace(",", "").split()
    places = len(number.partition(".")[2])
    return round(value / ONE.get(unit, 1) / nearest, places) * nearest == float(number)


@pytest.mark.parametrize(("figure", "case"), CASES, ids=[case["id"] for _, case in CASES])
def test_lesson(figure: str, case: dict[str, Any]) -> None:
    model = LESSON["model"].get(case.get("model"), {})
    value = FIGURES[figure](model, case)
    if isinstance(case["prints"], list):
        assert np.round(value, 1).tolist() == case["prints"]
    else:
        assert rounds_to(float(value), case["prints"], case.get("nearest", 1)), f"{value} is not {case['prints']}"


def test_there_are_103() -> None:
    assert len({case["id"] for _, case in CASES}) == 103
