"""Log lines as the engines print them; figures are from public logs, named where they are used."""

import contextlib
import io
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.logs.patterns import FACTORS, Pattern, patterns, values_of
from kvcalc.engines.logs.read import LONGEST_LINE, bounded_lines, read_log
from kvcalc.errors import KvcalcError
from kvcalc.units import GIB, MIB


@pytest.mark.parametrize("pattern", patterns(), ids=lambda pattern: pattern.key)
def test_each_pattern_reads_its_example(pattern: Pattern) -> None:
    assert pattern.key in pattern.example.lower()
    match = pattern.match.search(pattern.example)
    assert match is not None
    units = dict(name.partition("__")[::2] for name in match.groupdict())
    found = values_of(match)
    for name, given_value in pattern.gives.items():
        factor = FACTORS.get(units[name], 1)
        if units[name] == "size":
            continue
        expected = int(given_value * factor) if units[name] else given_value
        assert str(found[name]).strip() == str(expected)
    assert set(found) == set(pattern.gives)


def test_each_pattern_says_where_it_was_read() -> None:
    assert all(pattern.source for pattern in patterns())
    assert {pattern.engine for pattern in patterns()} == {"any", "vllm", "sglang", "trtllm", "llamacpp"}


VLLM_TWO_RANKS = """\
\x1b[36m(APIServer pid=1)\x1b[0;0m INFO 10-02 11:00:22 [api_server.py:1839] vLLM API server version 0.19.1
(APIServer pid=1) INFO 10-02 11:00:22 [utils.py:233] non-default args: {'model_tag': 'org/model-70b', \
'host': '0.0.0.0', 'model': 'org/model-70b', 'max_model_len': 8192, 'tensor_parallel_size': 2, \
'gpu_memory_utilization': 0.95, 'kv_cache_dtype': 'fp8', 'enforce_eager': False}
2026-10-02T11:00:40 (EngineCore pid=9) INFO 10-02 11:00:40 [core.py:105] Initializing a V1 LLM engine (v0.19.1) \
with config: model='org/model-70b', speculative_config=None, dtype=torch.bfloat16, max_seq_len=8192, \
tensor_parallel_size=2, pipeline_parallel_size=1, quantization=compressed-tensors, kv_cache_dtype=fp8
\x1b[36m(Worker_TP0 pid=301)\x1b[0;0m INFO 10-02 11:03:01 [gpu_model_runner.py:4820] \
Model loading took 33.88 GiB memory and 60.1 seconds
(Worker_TP1 pid=302) INFO 10-02 11:03:02 [gpu_model_runner.py:4820] Model loading took 33.87 GiB memory and 61.0 seconds
(Worker_TP1 pid=302) INFO 10-02 11:03:30 [gpu_worker.py:436] Available KV cache memory: 37.25 GiB
(Worker_TP0 pid=301) INFO 10-02 11:03:30 [gpu_worker.py:436] Available KV cache memory: 37.28 GiB
(EngineCore pid=9) INFO 10-02 11:03:31 [kv_cache_utils.py:1319] GPU KV cache size: 244,304 tokens
(EngineCore pid=9) INFO 10-02 11:03:31 [kv_cache_utils.py:1324] Maximum concurrency for 8,192 tokens per request: 29.82x
(Worker_TP0 pid=301) INFO 10-02 11:03:50 [gpu_model_runner.py:5000] Graph capturing finished in 19 secs, took 1.79 GiB
"""


def test_interleaved_ranks_with_colours() -> None:
    found = read_log(VLLM_TWO_RANKS)
    assert (found.engine, found.version, found.model, found.runner) == ("vllm", "0.19.1", "org/model-70b", "V1")
    assert found.weights_bytes == int(33.88 * GIB)  # the fullest rank
    assert found.pool_bytes == int(37.25 * GIB)  # the engine follows the rank with the least room
    assert (found.tokens, found.concurrency) == (244304, 29.82)
    assert found.graphs_bytes == int(1.79 * GIB)
    expected = {
        "tensor_parallel_size": 2,
        "max_model_len": 8192,
        "gpu_memory_utilization": 0.95,
        "kv_cache_dtype": "fp8",
        "quantization": "compressed-tensors",
        "dtype": "bfloat16",
        "enforce_eager": False,
    }
    assert expected.items() <= found.settings.items()
    ranks = {line.rank for line in found.lines if line.fact == "pool"}
    assert ranks == {"TP0", "TP1"}


def one(text: str) -> LogFacts:
    return read_log(text)


def test_v0_prints_every_term() -> None:
    """Phi-4 in 4 bits on an A100, vLLM 0.8 to 0.9."""
    found = one(
        "INFO 02-11 08:14:50 worker.py:266] the current vLLM instance can use total_gpu_memory (79.15GiB) x "
        "gpu_memory_utilization (0.70) = 55.09GiB\n"
        "INFO 02-11 08:14:50 worker.py:266] model weights take 8.63GiB; non_torch_memory takes 0.09GiB; PyTorch "
        "activation peak memory takes 1.16GiB; the rest of the memory reserved for KV Cache is 45.21GiB.\n"
        "INFO 02-11 08:14:52 executor_base.py:112] # cuda blocks: 14815, # CPU blocks: 1310\n"
        "INFO 02-11 08:14:52 executor_base.py:117] Maximum concurrency for 512 tokens per request: 462.97x\n"
    )
    assert found.pool_bytes == int(45.21 * GIB)
    assert found.activation_bytes == int(1.16 * GIB)
    assert (found.blocks, found.concurrency, found.settings["max_model_len"]) == (14815, 462.97, 512)


def test_refused_starts() -> None:
    found = one(
        "ValueError: To serve at least one request with the models's max seq len (32768), (4.50 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (4.47 GiB). Based on the available memory, the "
        "estimated maximum model length is 32560. Try increasing `gpu_memory_utilization`"
    )
    assert found.refusals[0].kind == "cache-too-small"
    assert found.needed_bytes == int(4.5 * GIB)
    assert found.pool_bytes == int(4.47 * GIB)
    assert found.estimated_max_len == 32560

    found = one("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`")
    assert found.refusals[0].kind == "no-memory-for-cache"

    found = one(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 80.04 GiB. GPU 0 has a total capacity of "
        "79.10 GiB of which 54.12 GiB is free. Process 1 has 24.97 GiB memory in use."
    )
    assert found.refusals[0].kind == "out-of-memory"
    assert found.tried_bytes == int(80.04 * GIB)


def test_sglang_pools_and_states() -> None:
    """Qwen3.5-9B on two GPUs; each rank prints its own."""
    found = one(
        "[2026-04-02 10:00:00] server_args=ServerArgs(model_path='Qwen/Qwen3.5-9B', tp_size=2, "
        "mem_fraction_static=0.8, context_length=None, disable_radix_cache=False)\n"
        "[2026-04-02 10:00:09 TP0] Load weight begin. avail mem=22.93 GB\n"
        "[2026-04-02 10:00:19 TP0] Load weight end. type=Qwen3_5ForConditionalGeneration, dtype=torch.bfloat16, "
        "avail mem=14.08 GB, mem usage=8.85 GB.\n"
        "[2026-04-02 10:00:20 TP1] Mamba Cache is allocated. max_mamba_cache_size: 186, conv_state size: 0.10GB, "
        "ssm_state size: 4.38GB\n"
        "[2026-04-02 10:00:20 TP0] Mamba Cache is allocated. max_mamba_cache_size: 186, conv_state size: 0.10GB, "
        "ssm_state size: 4.38GB\n"
        "[2026-04-02 10:00:20 TP1] KV Cache is allocated. #tokens: 327310, K size: 2.50 GB, V size: 2.50 GB\n"
        "[2026-04-02 10:00:20 TP0] KV Cache is allocated. #tokens: 327310, K size: 2.50 GB, V size: 2.50 GB\n"
        "[2026-04-02 10:00:20 TP0] Memory pool end. avail mem=4.60 GB\n"
    )
    assert (found.engine, found.model, found.tokens) == ("sglang", "Qwen/Qwen3.5-9B", 327310)
    assert [cache.kind for cache in found.caches] == ["state", "attention"]  # one rank's
    assert found.caches[0].slots == 186
    assert found.caches[1].size_bytes == 2 * int(2.5 * GIB)
    assert found.settings["gpu_memory_utilization"] == 0.8
    assert "max_model_len" not in found.settings


def test_llama_cpp_buffers_are_summed_over_devices() -> None:
    found = one(
        "build: 5200 (2d451c80) with cc (Ubuntu 11.4.0) 11.4.0 for x86_64-linux-gnu\n"
        "print_info: general.name     = Meta Llama 3.1 70B\n"
        "load_tensors: offloaded 81/81 layers to GPU\n"
        "load_tensors:        CUDA0 model buffer size = 20000.00 MiB\n"
        "load_tensors:        CUDA1 model buffer size = 20100.00 MiB\n"
        "load_tensors:   CPU_Mapped model buffer size =   563.62 MiB\n"
        "llama_context: n_ctx         = 4096\n"
        "llama_kv_cache_unified: size = 1280.00 MiB (  4096 cells,  80 layers,  1/1 seqs), "
        "K (f16): 640.00 MiB, V (f16): 640.00 MiB\n"
        "llama_context:      CUDA0 compute buffer size =   258.50 MiB\n"
    )
    assert (found.engine, found.version, found.model) == ("llamacpp", "5200", "Meta Llama 3.1 70B")
    assert found.weights_bytes == 40100 * MIB
    assert found.cache_bytes == 1280 * MIB
    assert (found.tokens, found.settings["max_model_len"]) == (4096, 4096)
    assert (found.caches[0].layers, found.caches[0].k_type) == (80, "f16")


def test_tensorrt_llm_profile() -> None:
    """A published start-up on GB10."""
    found = one(
        "[12/20/2025-04:21:50] [TRT-LLM] [I] Memory used after loading model weights (inside torch) in memory usage "
        "profiling: 63.52 GiB\n"
        "[12/20/2025-04:21:51] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 113.65 "
        "GiB, available KV cache memory when calculating max tokens: 5.95 GiB, fraction is set 0.8999999761581421, "
        "kv size is 73728. device total memory 119.70 GiB, , tmp kv_mem 0.56 GiB\n"
    )
    assert (found.engine, found.pool_bytes) == ("trtllm", int(5.95 * GIB))
    assert found.total_bytes == int(119.70 * GIB)
    assert found.weights_bytes == int(63.52 * GIB)


def test_the_last_start_that_says_something_counts() -> None:
    restarted = VLLM_TWO_RANKS.replace("37.25", "1.00") + VLLM_TWO_RANKS + VLLM_TWO_RANKS.splitlines()[0] + "\n"
    found = read_log(restarted)
    assert found.pool_bytes == int(37.25 * GIB)
    assert found.starts == 3


def test_command_lines_give_settings() -> None:
    found = one(
        "$ vllm serve org/model --tensor-parallel-size 8 --decode-context-parallel-size 2 --enforce-eager\n"
        "Multiplying the GPU KV cache size by the dcp_world_size 2.\nGPU KV cache size: 1,723,584 tokens\n"
    )
    assert found.settings["tensor_parallel_size"] == 8
    assert found.settings["decode_context_parallel_size"] == 2
    assert found.settings["enforce_eager"] is True


@pytest.mark.parametrize("text", ["", "\n\n", "hello", "GiB GiB GiB", "\x00\x01", "Available KV cache memory"])
def test_other_text_is_a_clear_error(text: str) -> None:
    with pytest.raises(KvcalcError, match="no start-up line"):
        read_log(text)


@given(st.text(max_size=3000))
def test_any_text_is_an_answer_or_an_error(text: str) -> None:
    with contextlib.suppress(KvcalcError):
        read_log(text)


@given(st.lists(st.sampled_from([p.example for p in patterns()]), min_size=1, max_size=12), st.data())
def test_shuffled_and_damaged_lines(lines: list[str], data: st.DataObject) -> None:
    damaged = [line[: data.draw(st.integers(0, len(line)))] + data.draw(st.text(max_size=5)) for line in lines]
    try:
        found = read_log("\n".join(damaged))
    except KvcalcError:
        return
    assert found.starts >= 1


@given(st.sampled_from([p.example for p in patterns()]), st.data())
def test_figures_that_two_ranks_wrote_at_once(line: str, data: st.DataObject) -> None:
    """Any of its digits becomes something that belongs to no number, or to a number of another script."""
    at = data.draw(st.sampled_from([i for i, letter in enumerate(line) if letter.isdigit()] or [0]))
    torn = line[:at] + data.draw(st.sampled_from([".", ",", "0.0.", "1,2,", "٠", "9" * 30, "-"])) + line[at + 1 :]
    with contextlib.suppress(KvcalcError):
        read_log(f"{torn}\n{line}\n{torn}")


@pytest.mark.parametrize(
    "unit", ["1", "1,", ".", " ", "9.", "GiB ", "KV Cache is allocated. ", "server_args=('a'='b' ", "'"]
)
def test_long_lines_are_quick(unit: str) -> None:
    text = "\n".join(pattern.key + " " + unit * LONGEST_LINE for pattern in patterns()[::7])
    start = time.process_time()
    with contextlib.suppress(KvcalcError):
        read_log(text)
    assert time.process_time() - start < 5  # of this process, whatever else the machine does


def test_a_file_without_newlines_is_read_in_pieces() -> None:
    file = io.StringIO("x" * (3 * LONGEST_LINE) + "\nAvailable KV cache memory: 5.69 GiB\n")
    pieces = list(bounded_lines(file))
    assert max(map(len, pieces)) <= LONGEST_LINE
    assert read_log(pieces).pool_bytes == int(5.69 * GIB)


def test_of_an_endless_line_the_beginning_is_read() -> None:
    """A million characters of it, in pieces; the next line is read again."""
    pieces = list(bounded_lines(io.StringIO("x" * 3_000_000 + "\nnext\n")))
    assert sum(map(len, pieces[:-1])) == 1_000_000
    assert pieces[-1] == "next\n"
