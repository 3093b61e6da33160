"""Start-up logs of four engines, spoilt."""

from pathlib import Path
from random import Random

from kvcalc.engines.logs.read import read_log
from tests.fuzz.mutation import text
from tests.fuzz.trial import ran, trials

LOGS = (
    """INFO 07-20 09:00:00 [__init__.py:216] Automatically detected platform cuda.
INFO 07-20 09:00:01 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', 'max_model_len': 8192}
INFO 07-20 09:00:02 [core.py:65] Initializing a V1 LLM engine (v0.11.0) with config: model='Qwen/Qwen3-8B', \
dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, kv_cache_dtype=auto
INFO 07-20 09:00:30 [gpu_model_runner.py:2653] Model loading took 15.2683 GiB and 8.1 seconds
INFO 07-20 09:00:50 [gpu_worker.py:298] Available KV cache memory: 23.03 GiB
INFO 07-20 09:00:51 [kv_cache_utils.py:1087] GPU KV cache size: 167,696 tokens
INFO 07-20 09:00:51 [kv_cache_utils.py:1091] Maximum concurrency for 8,192 tokens per request: 20.47x
ERROR 07-20 09:00:52 [core.py:708] ValueError: To serve at least one request with the models's max seq len (40960), \
(5.62 GiB KV cache is needed, which is larger than the available KV cache memory (3.10 GiB). Based on the available \
memory, the estimated maximum model length is 22576.
""",
    """[2026-01-02 03:04:05] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', tp_size=1, mem_fraction_static=0.88)
[2026-01-02 03:04:15] Load weight begin. avail mem=47.01 GB
[2026-01-02 03:04:25] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=31.68 GB, \
mem usage=15.33 GB.
[2026-01-02 03:04:26] KV Cache is allocated. #tokens: 184934, K size: 12.70 GB, V size: 12.70 GB
[2026-01-02 03:04:27] Memory pool end. avail mem=5.63 GB
[2026-01-02 03:04:37] max_total_num_tokens=184934, chunked_prefill_size=8192, max_running_requests=2048, \
context_len=40960
""",
    """[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, \
available: 60.13 GiB
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 54.12 GiB for max tokens in paged KV cache (443392).
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 13856
""",
    """llama_model_loader: - kv   0: general.architecture str = llama
load_tensors: offloaded 33/33 layers to GPU
load_tensors:        CUDA0 model buffer size =  4403.49 MiB
llama_context: n_ctx         = 8192
llama_kv_cache_unified:      CUDA0 KV buffer size =  1024.00 MiB
llama_context:      CUDA0 compute buffer size =   258.50 MiB
""",
)


def made(random: Random) -> str:
    whole = random.choice(LOGS)
    if random.random() < 0.3:
        whole = "".join(random.sample(whole.splitlines(True), len(whole.splitlines(True)))) + random.choice(LOGS)
    return text(random, whole)


def trial(random: Random, place: Path) -> str:
    path = place / "server.log"
    path.write_text(made(random), encoding="utf-8", errors="surrogatepass")
    more = random.choice([[], [], ["--gpu", "l40s"], ["--gpu", "h100-sxm", "--model", "qwen3-8b"], ["--json"]])
    return ran(["diagnose", str(path), *more])


def read(random: Random, place: Path) -> str:
    del place
    read_log(made(random))
    return "read"


def test_logs(tmp_path: Path) -> None:
    trials(trial, tmp_path)
