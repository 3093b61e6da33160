"""Command lines: every flag of every command, with values that are right, odd and wrong."""

import shlex
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random

from kvcalc.cli.flags import Flag
from tests.fuzz.mutation import NUMBERS, TEXTS, text
from tests.fuzz.trial import ran, trials

USUAL = {
    "size": "size llama-3-8b --gpu h100-sxm", "kv": "kv llama-3-8b", "step": "step llama-3-8b --gpu h100-sxm",
    "compare": "compare llama-3-8b --gpu l4 --gpu l40s", "curve": "curve llama-3-8b --gpu h100-sxm --context 2k",
    "prefill": "prefill llama-3-8b --gpu h100-sxm", "gpus": "gpus h100-sxm", "models": "models llama-3-8b",
    "speculate": "speculate llama-3-8b --gpu l40s --acceptance 0.8 --draft-cost 0.1",
    "simulate": "simulate smollm2-135m --gpu l4 --isl 64 --osl 8 --request-rate 4 --requests 20",
    "plan": "plan smollm2-135m --gpu l4 -tp 1 --isl 100 --osl 20 --users 3",
}  # fmt: skip
MODELS = [
    "llama-3-8b",
    "deepseek-v3",
    "gpt-oss-120b",
    "qwen3-next-80b-a3b",
    "gemma-3-27b",
    "smollm2-135m",
    "qwen3-30b-a3b",
]
GPUS = ["h100-sxm", "rtx4090", "mi300x", "m3 max 64gb", "p5.48xlarge", "rtx3090+rtx3060", "b200-sxm", "l4", "gh200"]
VALUES = [
    "1", "2", "3", "4", "8", "16", "64", "128", "1k", "8K", "2048", "100000", "0.5", "0.9", "1.5", "30ms", "2s", "50GB",
    "10GiB", "0", "on", "off", "cuda", "0.11", "b5000", "image=0", '{"method": "mtp", "num_speculative_tokens": 1}',
    "fp8", "bf16", "int4", "awq", "vllm", "sglang", "trtllm", "llamacpp", "ideal",
]  # fmt: skip
SUITED = {
    "N": ["1", "2", "4", "8", "16", "64"], "TOKENS": ["1", "16", "512", "1k", "2048", "8K", "100000"],
    "TIME": ["30ms", "2s"], "SIZE": ["50GB", "10GiB", "1MB"], "SHARE": ["0.5", "0.9", "1"],
    "TYPE": ["fp8", "bf16", "auto"],
    "USD": ["1", "$2.5"], "GIB": ["0", "4"],
}  # fmt: skip
NEVER = {"output", "ray", "requests_csv", "timeline", "find_rate", "new_card", "export"}


@cache
def flags_of(command: str) -> tuple[Flag, ...]:
    return tuple(f for f in import_module(f"kvcalc.cli.{command}").command.flags if f.field not in NEVER)


def valued(random: Random, flag: Flag) -> list[str]:
    name = random.choice([part for names in flag.names for part in names.split("/")])
    if flag.metavar is None:
        return [name]
    if flag.field in ("gpu", "draft"):
        chosen = random.choice(GPUS if flag.field == "gpu" else MODELS)
    elif random.random() < 0.8:
        chosen = random.choice(SUITED.get(flag.metavar, VALUES))
    else:
        chosen = random.choice([random.choice(TEXTS), str(random.choice(NUMBERS))])
    return [f"{name}={chosen}"] if name.startswith("--") and random.random() < 0.3 else [name, chosen]


def trial(random: Random, place: Path) -> str:
    del place
    command = random.choice(list(USUAL))
    words = shlex.split(USUAL[command])
    if random.random() < 0.3 and len(words) > 1:
        words[1] = random.choice(GPUS if command == "gpus" else MODELS)
    for _ in range(random.choice([0, 1, 1, 2, 2, 3, 5])):
        words += valued(random, random.choice(flags_of(command)))
    if random.random() < 0.05:
        words = shlex.split(text(random, shlex.join(words)).replace("'", "").replace('"', "").replace("\\", "")) or [
            "x"
        ]
    if words[0] in ("run", "calibrate", "diagnose"):
        return "left out"
    return ran([word.replace("\x00", "") for word in words])  # no shell passes a NUL


def test_lines(tmp_path: Path) -> None:
    trials(trial, tmp_path)
