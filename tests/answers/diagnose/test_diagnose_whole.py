"""Whole start-up logs as they reach a user: through containers and journals, from several ranks, of four engines."""

from collections.abc import Callable

import pytest

from kvcalc.answers.diagnose.answer import diagnose
from kvcalc.results.diagnose import DiagnoseResult
from kvcalc.units import GIB, MIB

# Llama-3.1-8B on two H100s, vLLM 0.19 at 0.95: 7.51 GiB of weights, 63.76 GiB for the cache.
VLLM = """\
(APIServer pid=1) INFO 04-25 03:28:50 [utils.py:299]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.19.1
(APIServer pid=1) INFO 04-25 03:28:50 [utils.py:233] non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', \
'gpu_memory_utilization': 0.95, 'tensor_parallel_size': 2}
(APIServer pid=1) INFO 04-25 03:28:53 [model.py:1678] Using max model len 131072
(EngineCore pid=9) INFO 04-25 03:29:01 [core.py:105] Initializing a V1 LLM engine (v0.19.1) with config: \
model='meta-llama/Llama-3.1-8B-Instruct', dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=2, \
pipeline_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto
(Worker_TP1 pid=71) INFO 04-25 03:29:31 [gpu_model_runner.py:4820] Model loading took 7.51 GiB memory and 4.1 seconds
(Worker_TP0 pid=70) INFO 04-25 03:29:31 [gpu_model_runner.py:4820] Model loading took 7.50 GiB memory and 4.1 seconds
(Worker_TP1 pid=71) INFO 04-25 03:29:50 [gpu_worker.py:436] Available KV cache memory: 63.80 GiB
(Worker_TP0 pid=70) INFO 04-25 03:29:50 [gpu_worker.py:436] Available KV cache memory: 63.76 GiB
(EngineCore pid=9) INFO 04-25 03:29:58 [kv_cache_utils.py:1319] GPU KV cache size: 1,044,640 tokens
(EngineCore pid=9) INFO 04-25 03:29:58 [kv_cache_utils.py:99] Maximum concurrency for 131,072 tokens per request: 7.97x
"""

# gpt-oss-20b in llama.cpp: caches of the full and of the windowed layers are 3,072 and 18 MiB at 131,072.
LLAMA_CPP = """\
build: 6500 (abcdef12) with cc (Ubuntu 13.3.0) 13.3.0 for x86_64-linux-gnu
llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 4090) (0000:01:00.0) - 23626 MiB free
llama_model_loader: loaded meta data with 9 key-value pairs and 99 tensors from /models/gpt-oss-20b.gguf (version V3)
load_tensors: offloaded 25/25 layers to GPU
load_tensors:   CPU_Mapped model buffer size =   586.82 MiB
load_tensors:        CUDA0 model buffer size = 10949.38 MiB
llama_context: n_seq_max     = 1
llama_context: n_ctx         = 131072
llama_kv_cache_iswa: creating non-SWA KV cache, size = 131072 cells
llama_kv_cache:      CUDA0 KV buffer size =  3072.00 MiB
llama_kv_cache: size = 3072.00 MiB (131072 cells,  12 layers,  1/1 seqs), K (f16): 1536.00 MiB, V (f16): 1536.00 MiB
llama_kv_cache_iswa: creating     SWA KV cache, size = 768 cells
llama_kv_cache:      CUDA0 KV buffer size =    18.00 MiB
llama_kv_cache: size =   18.00 MiB (   768 cells,  12 layers,  1/1 seqs), K (f16):    9.00 MiB, V (f16):    9.00 MiB
llama_context:      CUDA0 compute buffer size =   398.38 MiB
"""

# Llama-4-Scout on eight H100s, SGLang: the table of (2,048 + 1) requests × 10,485,760 tokens × 4 B is 80.04 GiB.
SGLANG_TABLE = """\
[2025-04-25 08:10:02] server_args=ServerArgs(model_path='meta-llama/Llama-4-Scout-17B-16E-Instruct', \
context_length=None, dtype='auto', mem_fraction_static=None, chunked_prefill_size=8192, tp_size=8, dp_size=1)
[2025-04-25 08:10:15 TP0] Load weight begin. avail mem=78.50 GB
[2025-04-25 08:11:15 TP0] Load weight end. type=Llama4ForConditionalGeneration, avail mem=50.79 GB, mem usage=27.71 GB.
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 80.04 GiB. GPU 0 has a total capacity of 79.11 GiB of \
which 50.40 GiB is free.
"""

# Llama-4-Scout on two H100 NVL: 203 GiB of weights for 186 GiB.
VLLM_WEIGHTS = """\
Initializing a V1 LLM engine (v0.8.3) with config: model='meta-llama/Llama-4-Scout-17B-16E-Instruct', \
dtype=torch.bfloat16, max_seq_len=1000, tensor_parallel_size=2, pipeline_parallel_size=1, quantization=None
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 640.00 MiB. GPU 0 has a total capacity of 93.11 GiB of \
which 300.12 MiB is free.
"""

# vllm/v1/worker/utils.py, 0.19.1: another process holds most of the card.
VLLM_BUSY = """\
(APIServer pid=1) INFO [utils.py:299]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.19.1
(APIServer pid=1) INFO [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B'}
(EngineCore pid=9) ERROR [core.py:1099] ValueError: Free memory on device cuda:0 (12.31/44.4 GiB) on startup is less \
than desired GPU memory utilization (0.9, 39.96 GiB). Decrease GPU memory utilization or reduce GPU memory used by \
other processes.
"""


def result(text: str, **flags: object) -> DiagnoseResult:
    return diagnose(text, dict(flags)).result


def whys(found: DiagnoseResult) -> str:
    return "\n".join(why for one in found.refusals for why in one.why)


@pytest.mark.parametrize(
    "carried",
    [
        lambda line: line,
        lambda line: f"vllm-1  | {line}",  # docker compose
        lambda line: f"Apr 25 03:29:00 gpu-07 docker[4123]: {line}",  # a journal
        lambda line: f"2026-04-25T03:29:00.123456789Z stdout F {line}",  # Kubernetes
        lambda line: line.replace("INFO", "\x1b[32mINFO\x1b[0m").replace("(Worker", "\x1b[1;36m(Worker", 1),
        lambda line: f"{line}\r",
    ],
)
def test_however_a_log_was_carried(carried: Callable[[str], str]) -> None:
    found = result("\n".join(carried(line) for line in VLLM.splitlines()), gpu="h100-sxm")
    assert (found.engine, found.version, found.model, found.started) == ("vllm", "0.19.1", "llama-3.1-8b", True)
    assert found.log["pool_bytes"] == int(63.76 * GIB)  # of the rank with the least
    assert found.log["weights_bytes"] == int(7.51 * GIB)  # and with the most
    assert all(one.agrees for one in found.agreement)
    assert {one.name: one.predicted for one in found.agreement}["tokens"] == 1044640


def test_without_a_gpu_there_is_still_an_answer() -> None:
    found = result(VLLM)
    assert {line.name: line.predicted_bytes for line in found.memory}["weights"] == pytest.approx(7.51 * GIB, rel=0.01)
    assert {one.change: one.effect for one in found.advice} == {
        "--kv-cache-dtype fp8": "2.0× the tokens: 2,089,280 instead of 1,044,640"
    }


def test_llama_cpp_with_two_caches() -> None:
    found = result(LLAMA_CPP, model="gpt-oss-20b")
    assert found.log["pool_bytes"] == 3090 * MIB
    assert found.log["weights_bytes"] == int(10949.38 * MIB)  # what stays with the CPU is not the GPU's
    assert all(one.agrees for one in found.agreement)
    assert "weights" not in {one.name for one in found.agreement}  # a card does not know the file's types
    assert found.advice[0].change == "-c 393216 -np 3"  # n_ctx is the model's maximum already


def test_llama_cpp_names_a_file() -> None:
    assert any("/models/gpt-oss-20b.gguf" in line for line in result(LLAMA_CPP).missing)


def test_the_table_of_requests_is_recognized() -> None:
    found = result(SGLANG_TABLE, gpu="h100-sxm")
    assert not found.started
    assert "2,049 requests × 10,485,760 tokens × 4 bytes" in whys(found)
    lengths = [int(one.change.split()[1]) for one in found.advice if one.change.startswith("--context-length")]
    assert lengths
    assert 4 * 2049 * lengths[0] < 16.6 * GIB  # within what is kept back


def test_weights_that_no_setting_makes_fit() -> None:
    found = result(VLLM_WEIGHTS, gpu="h100-nvl")
    assert "more than the card's 93.11 GiB" in whys(found)
    assert not [one for one in found.advice if one.change.startswith("--max-model-len")]
    assert any(one.change == "--quantization fp8" for one in found.advice)


def test_a_card_that_others_use() -> None:
    found = result(VLLM_BUSY, gpu="l40s")
    assert "32.09 GiB of this GPU is taken already" in whys(found)
    assert [one.change for one in found.advice] == ["free the GPU"]  # 15.27 GiB of weights and 12.31 free
    small = result(VLLM_BUSY.replace("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B"), gpu="l40s")
    assert [one.change for one in small.advice] == ["--gpu-memory-utilization 0.27"]


# Qwen3.5-27B in 4 bits with an fp8 cache and three draft tokens, vLLM 0.26: 9.29 GiB needed, 260,800 tokens fit.
VLLM_HYBRID = """\
(APIServer pid=1) INFO [utils.py:302]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.26.1rc1
(APIServer pid=1) INFO [utils.py:240] non-default args: {'model': 'Qwen/Qwen3.5-27B', 'max_model_len': 262144, \
'kv_cache_dtype': 'fp8', 'enable_prefix_caching': True, 'speculative_config': {'num_speculative_tokens': 3}}
(EngineCore pid=9) INFO [interface.py:980] Setting attention block size to 1600 tokens to ensure that attention page \
size is >= mamba page size.
(EngineCore pid=9) INFO [gpu_model_runner.py:4820] Model loading took 18.9 GiB memory and 24.1 seconds
(EngineCore pid=9) INFO [gpu_worker.py:436] Available KV cache memory: 9.28 GiB
(EngineCore pid=9) ERROR [core.py:1099] ValueError: To serve at least one request with the models's max seq len \
(262144), (9.29 GiB KV cache is needed, which is larger than the available KV cache memory (9.28 GiB). Based on the \
available memory, the estimated maximum model length is 260800. Try increasing `gpu_memory_utilization`
"""


def test_another_checkpoint_than_the_one_that_was_served() -> None:
    report = diagnose(VLLM_HYBRID, {"gpu": "rtx5090"})
    compared = {one.name: one for one in report.result.agreement}
    assert compared["needed for one sequence"].predicted == pytest.approx(9.29 * GIB, rel=0.001)
    assert compared["longest sequence"].predicted == 260800
    assert not compared["weights"].agrees
    assert not [one for one in report.result.advice if one.change.startswith(("--quantization", "--tensor"))]
    assert [one for one in report.assumptions if one.name == "weights"]


SGLANG_DP = """\
[2026-02-01 09:00:00] server_args=ServerArgs(model_path='deepseek-ai/DeepSeek-V3.2', context_length=None, \
kv_cache_dtype='fp8_e4m3', mem_fraction_static=0.85, tp_size=8, dp_size=8, enable_dp_attention=True, ep_size=8)
[2026-02-01 09:00:10 DP0 TP0 EP0] Load weight begin. avail mem=139.10 GB
[2026-02-01 09:01:12 DP0 TP0 EP0] KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 494336, KV size: 22.13 GB
[2026-02-01 09:01:12 DP1 TP1 EP1] KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 494336, KV size: 22.13 GB
"""


def test_attention_of_its_own_on_every_rank() -> None:
    """SGLang's dp_size divides tp_size: each rank has all of the attention and an eighth of the experts."""
    found = diagnose(SGLANG_DP, {"gpu": "h200-sxm"})
    assert found.inputs["tensor_parallel_size"] == 1
    assert found.inputs["data_parallel_size"] == 8
    weights = {line.name: line.predicted_bytes for line in found.result.memory}["weights"]
    experts = 58 * 256 * 3 * 7168 * 2048  # of a byte each
    assert weights is not None
    assert 17e9 < weights - experts / 8 < 21e9  # 17 billion other parameters, the embedding and the head in 16 bits
    assert {one.name: one.agrees for one in found.result.agreement}["tokens"]
    dense = diagnose(SGLANG_DP.replace("deepseek-ai/DeepSeek-V3.2", "Qwen/Qwen3-8B"), {"gpu": "h200-sxm"})
    assert dense.inputs["enable_expert_parallel"] is False
