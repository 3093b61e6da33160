"""config.json of many families, spoilt."""

import json
from pathlib import Path
from random import Random

from tests.catalog.real_models import MODELS, config_of
from tests.fuzz.mutation import structure, text
from tests.fuzz.trial import counted_model, ran, trials

NAMES = sorted(MODELS)
COMMANDS = (
    ["size", "--gpu", "h100-sxm"], ["size", "--gpu", "h100-sxm", "-tp", "2", "--isl", "1k", "--osl", "100"], ["kv"],
    ["models"], ["step", "--gpu", "l40s", "--engine", "sglang"], ["size", "--gpu", "rtx4090", "--engine", "llamacpp"],
    ["prefill", "--gpu", "b200-sxm", "--engine", "trtllm", "--isl", "2k"], ["kv", "--engine", "vllm"],
)  # fmt: skip


def made(random: Random, place: Path) -> Path:
    path = place / "config.json"
    config = structure(random, config_of(random.choice(NAMES)))
    written = json.dumps(config)
    if random.random() < 0.1:
        written = text(random, written)
    path.write_text(written, encoding="utf-8", errors="surrogatepass")
    return path


def trial(random: Random, place: Path) -> str:
    path = made(random, place)
    command, *flags = random.choice(COMMANDS)
    return ran([command, str(path), *flags, "--json"] if random.random() < 0.5 else [command, str(path), *flags])


def read(random: Random, place: Path) -> str:
    return counted_model(made(random, place))


def test_configs(tmp_path: Path) -> None:
    trials(trial, tmp_path)
