"""Results of the engines' benchmarks, in the forms that they write."""

import json
from pathlib import Path

import pytest

from kvcalc.catalog.bench.measurement import Served, Timed
from kvcalc.catalog.bench.read import read_results
from kvcalc.errors import KvcalcError

# llama.cpp, tools/llama-bench/README.md: the object of its example, as far as it says what was run.
LLAMA_BENCH = [
    {"build_number": 5163, "backends": "CUDA", "n_batch": 2048, "n_ubatch": 512, "type_k": "f16", "flash_attn": -1,
     "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ns": 72135640, "avg_ts": 7100.002165},
    {"build_number": 5163, "backends": "CUDA", "n_batch": 2048, "n_ubatch": 512, "type_k": "f16", "flash_attn": False,
     "n_prompt": 0, "n_gen": 128, "n_depth": 0, "avg_ns": 1076767880, "avg_ts": 118.881588},
]  # fmt: skip
# vllm/benchmarks/serve.py: 100 requests of 1,000 tokens in and 101 out, 10 at a time, each 0.2 s + 100 · 20 ms: 2.2 s.
VLLM = {
    "date": "20260101-000000", "endpoint_type": "vllm", "model_id": "m", "num_prompts": 100, "request_rate": "inf",
    "max_concurrency": None, "duration": 22.0, "completed": 100, "total_input_tokens": 100_000,
    "total_output_tokens": 10_100, "mean_ttft_ms": 200.0, "mean_tpot_ms": 20.0, "mean_itl_ms": 20.0,
}  # fmt: skip


def write(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_llama_bench(tmp_path: Path) -> None:
    prompt, decode = read_results(write(tmp_path / "bench.json", LLAMA_BENCH))
    assert isinstance(prompt, Timed)
    assert isinstance(decode, Timed)
    assert (prompt.decodes, prompt.tokens) == (False, 512)
    said = {"engine_version": "b5163", "backend": "cuda", "ubatch_size": 512, "flash_attn": "auto"}
    assert dict(prompt.settings) == said
    assert prompt.seconds == pytest.approx(0.07211, rel=1e-3)  # avg_ns is the mean of the runs' times
    assert (decode.decodes, decode.tokens) == (True, 128)
    assert dict(decode.settings) == said | {"flash_attn": "off"}
    assert decode.seconds * 128 == pytest.approx(1.0768, rel=1e-3)


def test_llama_bench_says_backend_cache_and_what_the_cpu_kept(tmp_path: Path) -> None:
    part = {"backends": "Vulkan,BLAS", "type_k": "q8_0", "n_gpu_layers": 20, "n_cpu_moe": 4}
    (one,) = read_results(write(tmp_path / "bench.json", [LLAMA_BENCH[0] | part]))
    assert isinstance(one, Timed)
    said = {"backend": "vulkan", "kv_cache_dtype": "q8_0", "n_gpu_layers": 20, "n_cpu_moe": 4}
    assert said.items() <= dict(one.settings).items()


def test_llama_bench_as_lines_without_the_tests_of_both(tmp_path: Path) -> None:
    lines = [*LLAMA_BENCH, LLAMA_BENCH[0] | {"n_gen": 128}]
    assert len(read_results(write(tmp_path / "b.jsonl", "\n".join(map(json.dumps, lines))))) == 2


def test_vllm_counts_requests_in_flight(tmp_path: Path) -> None:
    (one,) = read_results(write(tmp_path / "v.json", VLLM))
    assert isinstance(one, Served)
    assert (one.input_len, one.output_len, one.ttft_s, one.tpot_s) == (1000, 101, 0.2, 0.02)
    assert one.concurrency == pytest.approx(10)  # 100 requests · 2.2 s in 22 s


def test_sglang_lines_and_a_limit_of_concurrency(tmp_path: Path) -> None:
    line = VLLM | {"backend": "sglang", "dataset_name": "random", "max_concurrency": 8, "mean_e2e_latency_ms": 2200.0}
    found = read_results(write(tmp_path / "s.jsonl", f"{json.dumps(line)}\n{json.dumps(line)}\n"))
    assert [one.concurrency for one in found if isinstance(one, Served)] == [8, 8]


def test_sglang_of_2024_wrote_medians_alone(tmp_path: Path) -> None:
    line = {key: value for key, value in VLLM.items() if not key.startswith("mean_")}
    line |= {"backend": "sglang", "median_ttft_ms": 300.0, "median_itl_ms": 30.0}
    (one,) = read_results(write(tmp_path / "s.jsonl", json.dumps(line)))
    assert isinstance(one, Served)
    assert (one.ttft_s, one.tpot_s) == (0.3, 0.03)


@pytest.mark.parametrize("key", ["accept_length", "spec_decode_acceptance_length"])
def test_a_run_with_drafts_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(KvcalcError, match="drafted"):
        read_results(write(tmp_path / "s.jsonl", json.dumps(VLLM | {key: 3.1})))
    assert read_results(write(tmp_path / "s.jsonl", json.dumps(VLLM | {key: None})))


def test_a_log_of_requests(tmp_path: Path) -> None:
    request = {"input_tokens": 100, "output_tokens": 11, "arrival_s": 0.0, "scheduled_s": 1.0, "first_token_s": 1.5}
    log = {"requests": [request | {"last_token_s": 2.5}, request | {"last_token_s": 3.5}]}
    (one,) = read_results(write(tmp_path / "log.json", log))
    assert isinstance(one, Served)
    assert (one.ttft_s, one.tpot_s) == (0.5, pytest.approx(0.15))
    assert one.concurrency == pytest.approx((1.5 + 2.5) / 2.5)


@pytest.mark.parametrize(
    "text", ["{}", "[]", "not json", '{"completed": 1', json.dumps(VLLM | {"completed": 0}), "[1, 2]",
     json.dumps(VLLM | {"mean_tpot_ms": float("nan")}), json.dumps(VLLM | {"mean_ttft_ms": -1.0})],
)  # fmt: skip
def test_what_is_no_result_is_an_error_with_a_hint(tmp_path: Path, text: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        read_results(write(tmp_path / "x.json", text))
    assert caught.value.hint
