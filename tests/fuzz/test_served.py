"""Pasted serving commands, spoilt."""

from pathlib import Path
from random import Random

from kvcalc.catalog.serve.served import read_command
from tests.fuzz.mutation import text
from tests.fuzz.trial import ran, trials

COMMANDS = (
    "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --max-model-len 8192 --kv-cache-dtype fp8 --port 8000",
    "docker run --gpus all -v ~/.cache:/root/.cache vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B -tp 1 "
    '--speculative-config \'{"method": "eagle3", "num_speculative_tokens": 3}\' --gpu-memory-utilization 0.95',
    "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2 --mem-fraction-static 0.8 --enable-dp-attention",
    "trtllm-serve Qwen/Qwen3-8B --tp_size 2 --max_batch_size 64 --kv_cache_free_gpu_memory_fraction 0.9",
    "llama-server -m model.gguf -c 32768 -np 4 -ngl 99 -fa on -ctk q8_0 -ctv q8_0 --n-cpu-moe 3",
)


def read(random: Random, place: Path) -> str:
    read_command(text(random, random.choice(COMMANDS)), folder=place)
    return "read"


def trial(random: Random, place: Path) -> str:
    del place
    command = text(random, random.choice(COMMANDS))
    what = random.choice([["size", "qwen3-8b", "--gpu", "h100-sxm"], ["kv", "qwen3-8b"], ["models", "qwen3-8b"],
                          ["step", "qwen3-8b", "--gpu", "l40s"]])  # fmt: skip
    return ran([*what, "--serve", command] if what[0] != "models" else ["size", "--gpu", "l4", "--serve", command])


def test_served(tmp_path: Path) -> None:
    trials(trial, tmp_path)
