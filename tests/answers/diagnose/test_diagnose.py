"""Start-up logs put beside the prediction. The figures of the logs are of public runs, named where they are used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.diagnose.answer import diagnose
from kvcalc.answers.pasted import ask_served
from kvcalc.answers.size.answer import size
from kvcalc.errors import KvcalcError
from kvcalc.results.diagnose import DiagnoseResult
from kvcalc.units import GIB

# Llama-3.1-8B on an H100, vLLM 0.19 at 0.95: weights 14.99, peak 1.89, outside 0.25, graphs 0.96, cache 58.11 GiB.
STARTED = """\
(APIServer pid=1) INFO [api_server.py:1839] vLLM API server version 0.19.0
(APIServer pid=1) INFO [utils.py:233] non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', \
'max_model_len': 8192, 'gpu_memory_utilization': 0.95}
(EngineCore pid=9) INFO [core.py:105] Initializing a V1 LLM engine (v0.19.0) with config: \
model='meta-llama/Llama-3.1-8B-Instruct', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1
(EngineCore pid=9) INFO [gpu_worker.py:436] Available KV cache memory: 58.11 GiB
(EngineCore pid=9) INFO [kv_cache_utils.py:1319] GPU KV cache size: 476,032 tokens
(EngineCore pid=9) INFO [kv_cache_utils.py:1324] Maximum concurrency for 8,192 tokens per request: 58.11x
(EngineCore pid=9) DEBUG [gpu_worker.py:640] Free memory on device (78.68/79.19 GiB) on startup. Desired GPU memory \
utilization is (0.95, 75.23 GiB). Actual usage is 14.99 GiB for weight, 1.89 GiB for peak activation, 0.25 GiB for \
non-torch memory, and 0.96 GiB for CUDAGraph memory.
"""

# Llama-3.1-8B with an fp8 cache, 6 GiB for it: a public question, answered by the log with 8.0 GiB and 98,304 tokens.
REFUSED = """\
Initializing a V1 LLM engine (v0.10.2) with config: model='meta-llama/Llama-3.1-8B-Instruct', dtype=torch.bfloat16, \
max_seq_len=131072, tensor_parallel_size=1, kv_cache_dtype=fp8
ValueError: To serve at least one request with the models's max seq len (131072), (8.00 GiB KV cache is needed, which \
is larger than the available KV cache memory (6.00 GiB). Based on the available memory, the estimated maximum model \
length is 98304. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`
"""


def result(text: str, **flags: object) -> DiagnoseResult:
    return diagnose(text, dict(flags)).result


def test_a_start_that_agrees() -> None:
    found = result(STARTED, model="llama-3.1-8b", gpu="h100-sxm")
    assert (found.engine, found.version, found.started) == ("vllm", "0.19.0", True)
    assert all(one.agrees for one in found.agreement), [one for one in found.agreement if not one.agrees]
    compared = {one.name: one for one in found.agreement}
    assert compared["tokens"].predicted == 476032
    assert compared["cache pool"].predicted == pytest.approx(58.11 * GIB, rel=0.003)
    assert {"weights", "activation peak", "outside PyTorch", "CUDA graphs"} <= compared.keys()
    assert found.log["pool_bytes"] == int(58.11 * GIB)
    assert found.predicted["activation_bytes"]["low"] <= found.log["activation_bytes"]
    assert not found.missing


def test_advice_has_numbers() -> None:
    found = result(STARTED, model="llama-3.1-8b", gpu="h100-sxm")
    advice = {one.change: one.effect for one in found.advice}
    assert advice["--kv-cache-dtype fp8"].startswith("2.0× the tokens: 952,064 instead of 476,032")


def test_a_refused_start_is_explained() -> None:
    found = result(REFUSED, model="llama-3.1-8b", gpu="l4")
    assert not found.started
    assert found.refusals[0].kind == "cache-too-small"
    assert "8.00 GiB of cache per GPU, 6.00 GiB is available: 2.00 GiB short" in found.refusals[0].why[0]
    compared = {one.name: one for one in found.agreement}
    assert compared["needed for one sequence"].predicted == 8 * GIB
    assert compared["longest sequence"].predicted == 98304
    assert found.advice[0].change == "--max-model-len 98304"
    assert found.advice[0].effect == "max_model_len up to 98,304 fits"


def test_what_the_log_does_not_say_is_asked_for() -> None:
    found = result("GPU KV cache size: 476,032 tokens\nAvailable KV cache memory: 58.11 GiB")
    assert any("--model" in line for line in found.missing)
    assert any("--gpu" in line for line in found.missing)
    assert found.agreement == ()
    assert found.predicted == {}


def test_a_busy_card() -> None:
    found = result(
        "ValueError: Free memory on device (70.12/79.19 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 71.27 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    assert "9.07 GiB of this GPU is taken already" in found.refusals[0].why[0]
    assert found.advice[0].change == "--gpu-memory-utilization 0.88"


def test_sglang_request_table() -> None:
    """Llama-4-Scout at its full context: 4 B for each of 2,049 × 10,485,760 tokens."""
    found = result(
        "server_args=ServerArgs(model_path='meta-llama/Llama-4-Scout-17B-16E', tp_size=8, context_length=10485760)\n"
        "[TP0] Load weight end. type=Llama4ForConditionalGeneration, dtype=torch.bfloat16, avail mem=50.2 GB, "
        "mem usage=26.84 GB.\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 80.04 GiB. GPU 0 has a total capacity of "
        "79.10 GiB of which 48.12 GiB is free.",
        model="llama-3.1-8b",
    )
    assert found.refusals[0].kind == "out-of-memory"
    assert any("requests" in line for line in found.refusals[0].why)


def test_mamba_states_bound_the_sequences() -> None:
    found = result(
        "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (524). Please lower max_num_seqs"
    )
    assert found.advice[0].change == "--max-num-seqs 524"


def test_a_version_that_prints_consumed_memory() -> None:
    """Llama-3.1-8B on an A100, vLLM 0.31 on a cold cache: the terms add up to the requested memory."""
    found = result(
        "Initializing a V1 LLM engine (v0.31.0) with config: model='x', dtype=torch.bfloat16, max_seq_len=131072\n"
        "Using V2 Model Runner\n"
        "Free memory on device (78.74/79.25 GiB) on startup. Desired GPU memory utilization is (0.92, 72.91 GiB). "
        "Actual usage is 15.26 GiB for consumed memory (weights + non-torch), 1.44 GiB for peak activation, and 0.23 "
        "GiB for CUDAGraph memory.\nAvailable KV cache memory: 56.21 GiB\n",
        model="llama-3.1-8b",
        gpu="a100-80g-sxm",
    )
    names = {line.name for line in found.memory}
    assert {"weights and outside PyTorch", "activation peak and graphs"} <= names
    assert {one.name for one in found.agreement if not one.agrees} == set()


# torch's own words, c10/cuda/CUDACachingAllocator.cpp
OUT_OF_MEMORY = """\
torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of \
which 1.20 GiB is free. Including non-PyTorch memory, this process has 20.40 GiB memory in use. Of the allocated \
memory 20.10 GiB is allocated by PyTorch, and 0.10 GiB is reserved by PyTorch but unallocated.
"""


def test_a_plain_out_of_memory_line_is_an_answer() -> None:
    found = result(OUT_OF_MEMORY)
    assert not found.started
    assert found.log["tried_bytes"] == 2 * GIB
    assert found.log["free_at_failure_bytes"] == int(1.2 * GIB)
    why = " ".join(found.refusals[0].why)
    assert "2.00 GiB failed with 1.20 GiB free" in why
    assert "2.04 GiB of the card is held by other processes" in why  # 23.64 − 1.20 − 20.40
    assert len(found.missing) == 2  # model and GPU


def test_weights_above_the_card_of_the_log_need_no_gpu_to_be_said() -> None:
    """Qwen3-32B in bf16 is 61 GiB; the log says how large its card is."""
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total capacity of "
    found = result(f"{text}44.40 GiB of which 300.00 MiB is free.", model="qwen3-32b")
    assert "61.03 GiB per GPU, more than the card's 44.40 GiB" in " ".join(found.refusals[0].why)


def test_advice_after_out_of_memory_was_tried_and_has_its_command() -> None:
    found = result(OUT_OF_MEMORY, model="llama-3-8b", gpu="rtx-4090", max_model_len="4096")
    first = found.advice[0]
    assert first.change == "--gpu-memory-utilization 0.88"  # 0.92 − (2.00 − 1.20) / 23.64, cut to a hundredth
    assert found.mended_command == (
        "vllm serve meta-llama/Meta-Llama-3-8B --max-model-len 4096 --gpu-memory-utilization 0.88"
    )
    assert found.command == "vllm serve meta-llama/Meta-Llama-3-8B --max-model-len 4096"


@pytest.mark.parametrize("line", ["RuntimeError: HIP error: out of memory", "CUDA error: out of memory",
                                  "hipErrorOutOfMemory", "CUDA_ERROR_OUT_OF_MEMORY: out of memory"])  # fmt: skip
def test_runtimes_own_words(line: str) -> None:
    found = result(line, model="llama-3-8b", gpu="rtx-4090", max_model_len="4096")
    assert found.refusals[0].kind == "out-of-memory"
    assert found.advice[0].goal == "fit"
    assert found.mended_command is not None


def test_a_log_without_a_layout_says_what_was_taken() -> None:
    report = diagnose("GPU KV cache size: 1,000 tokens", {"model": "deepseek-v3", "gpu": "h100-sxm"})
    taken = {one.name: one.value for one in report.assumptions}
    assert taken["tensor_parallel_size"] == 1
    assert any("give -tp" in line for line in report.result.missing)
    assert all(line.predicted_bytes is None or line.predicted_bytes >= 0 for line in report.result.memory)
    assert report.result.predicted["pool_bytes"] == {"value": 0, "low": 0, "high": 0}
    assert report.result.predicted["short_bytes"] > 500 * GIB


def test_nonsense_is_named_and_not_used() -> None:
    text = "vLLM API server version banana\nnon-default args: {'tensor_parallel_size': 0}\nGPU KV cache size: 9 tokens"
    report = diagnose(text, {"model": "llama-3-8b"})
    assert report.inputs["tensor_parallel_size"] == 1
    assert report.inputs["engine_version"] is None
    named = " ".join(one.why for one in report.assumptions)
    assert "'0' was not understood" in named
    assert "'banana' was not understood" in named


def test_the_command_of_a_start() -> None:
    found = result(STARTED, model="llama-3.1-8b", gpu="h100-sxm")
    assert found.command is not None
    assert found.command.startswith("vllm serve meta-llama/Llama-3.1-8B-Instruct ")
    assert "--max-model-len 8192" in found.command
    assert "--gpu-memory-utilization 0.95" in found.command
    assert found.mended_command is None


@pytest.mark.parametrize("flags", [{"gpu": "h10O-sxm"}, {"model": "lama-3-8b"}, {"tensor_parallel_size": "x"}])
def test_wrong_flags_are_errors(flags: dict[str, object]) -> None:
    with pytest.raises(KvcalcError):
        result(STARTED, **flags)


@given(st.text(max_size=400))
def test_any_text_is_an_answer_or_a_clear_error(text: str) -> None:
    try:
        found = result("Available KV cache memory: 1.00 GiB\n" + text, model="llama-3.1-8b")
    except KvcalcError:
        return
    assert found.engine


def test_llama_cpp_takes_what_it_is_told() -> None:
    """Rows of 1,024 elements in blocks of 34 bytes for 32: 32,768 cells × 32 layers × 2 × 1,088 B = 2,176 MiB."""
    found = result(
        "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 4090) - 23306 MiB free\n"
        "load_tensors:        CUDA0 model buffer size =  4403.49 MiB\n"
        "llama_context: n_ctx         = 32768\n"
        "llama_kv_cache: size = 2176.00 MiB ( 32768 cells,  32 layers,  4/1 seqs), K (q8_0): 1088.00 MiB, "
        "V (q8_0): 1088.00 MiB\n"
        "llama_context:      CUDA0 compute buffer size =   258.50 MiB\n",
        model="llama-3.1-8b",
    )
    compared = {one.name: one for one in found.agreement}
    assert found.gpu == "NVIDIA GeForce RTX 4090 24GB"
    assert compared["cache of n_ctx"].predicted == 2176 * 2**20
    assert found.advice[0].change == "-c 131072"


def test_sglang_is_told_in_its_own_flags() -> None:
    """Free memory before and after loading, the pool, and what the fraction of 0.8 keeps back."""
    found = result(
        "server_args=ServerArgs(model_path='Qwen/Qwen3-8B', tp_size=1, mem_fraction_static=0.8)\n"
        "Load weight begin. avail mem=78.58 GB\n"
        "Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=63.30 GB, mem usage=15.28 GB.\n"
        "KV Cache is allocated. #tokens: 346486, K size: 23.79 GB, V size: 23.79 GB\n",
        model="qwen3-8b",
        gpu="h100-sxm",
    )
    compared = {one.name: one for one in found.agreement}
    assert compared["tokens"].error == pytest.approx(0, abs=0.001)
    assert compared["cache pool"].agrees
    assert any(one.change == "--tp-size 2" for one in found.advice)


def test_advice_after_out_of_memory_stays_on_the_gpus_that_are_there() -> None:
    """A smaller share leaves room for what failed; the length that it then holds is part of the change."""
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of "
        "23.65 GiB of which 1.11 GiB is free."
    )
    result = diagnose(text, {"model": "llama-3.1-8b", "gpu": "rtx4090"}).result
    assert {"--gpu-memory-utilization", "--max-model-len"} <= set(result.advice[0].change.split())
    assert "parallel-size" in result.advice[-1].change
    assert result.mended_command is not None
    question = ask_served("llama-3.1-8b", {"gpu": "rtx4090", "serve": result.mended_command})
    assert Deployed(question).budget.requested < 0.885 * 24 * 2**30


OFFLOADS = [
    ("llama-3.1-8b", "q8_0", "131072", "-c"),  # the cache is what is too large
    ("llama-3-70b", "q4_k_m", None, "-ngl"),
    ("qwen3-30b-a3b", "q8_0", None, "-ncmoe"),
]


@pytest.mark.parametrize("model, quantization, cells, flag", OFFLOADS)
def test_llamacpp_can_leave_weights_to_the_cpu(model: str, quantization: str, cells: str | None, flag: str) -> None:
    text = "allocating 17408.00 MiB on device 0: cudaMalloc failed: out of memory"
    flags = {"model": model, "gpu": "rtx3060", "quantization": quantization, "engine": "llamacpp"}
    result = diagnose(text, flags | ({"ctx_size": cells} if cells else {})).result
    assert result.advice[0].change.startswith(f"{flag} ")
    assert result.mended_command is not None
    again = size(ask_served(model, {"gpu": "rtx3060", "serve": result.mended_command})).result
    assert again.fits is not False


def test_tensorrt_llm_runs_out_in_its_own_words() -> None:
    text = "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, pool, stream): out of memory"
    result = diagnose(text).result
    assert (result.engine, result.started) == ("trtllm", False)
