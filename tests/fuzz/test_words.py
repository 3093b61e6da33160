"""What people type as a value or a name: quantities with units, GPUs, models, and expressions over odd keys."""

import tomllib
from functools import cache
from pathlib import Path
from random import Random

import pytest

from kvcalc import units
from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.scope import Scope
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.catalog.serve.file_name import read_file_name
from tests.fuzz.mutation import NUMBERS, TEXTS, text, value
from tests.fuzz.trial import Trial, trials

PARSERS = (
    units.parse_tokens, units.parse_bytes, units.parse_bandwidth, units.parse_gib, units.parse_seconds,
    units.parse_count, units.parse_number,
)  # fmt: skip
QUANTITIES = ["8192", "8k", "25.6k", "1,024", "1_000", "80GB", "46 GiB", "512B", "50ms", "1.5s", "2min", "0.92", ".5"]
GPUS = [
    "h100-sxm",
    "m3 max 64gb",
    "p5.48xlarge",
    "rtx3090+rtx3060",
    "RTX 4090",
    "NVIDIA H100 80GB HBM3",
    "mi300x",
    "a100",
]
MODELS = ["llama-3-8b", "Meta-Llama-3-8B", "qwen3_8b", "deepseek v3", "gemma-3-27b", "smollm2-135m", "gpt-oss"]
FILES = ["Qwen3-8B-Q4_K_M.gguf", "Llama-3.1-70B-Instruct-IQ2_XXS-00001-of-00003.gguf", "unsloth/gemma-3:UD-Q4_K_XL"]
TABLES = Path(__file__).parents[2] / "kvcalc" / "catalog" / "config" / "families"


def quantity(random: Random, place: Path) -> str:
    del place
    said = random.choice([text(random, random.choice(QUANTITIES)), random.choice(TEXTS), str(random.choice(NUMBERS))])
    assert random.choice(PARSERS)(said, "--flag") >= 0
    return "read"


def name(random: Random, place: Path) -> str:
    del place
    kind, known = random.choice([(load_gpu, GPUS), (load_model, MODELS), (read_file_name, FILES)])
    kind(text(random, random.choice(known), times=1).replace("\x00", ""))  # type: ignore[operator]
    return "read"


@cache
def expressions() -> tuple[str, ...]:
    """Every expression of a size that the tables of families have."""
    found = set[str]()
    for path in sorted(TABLES.glob("*.toml")):
        for table in tomllib.loads(path.read_text(encoding="utf-8")).values():
            if isinstance(table, dict):
                found |= {one for one in table.get("sizes", {}).values() if isinstance(one, str)}
                found |= {
                    side for extra in table.get("extra", []) for side in extra.get("shape", []) if isinstance(side, str)
                }
    return tuple(sorted(found))


def expression(random: Random, place: Path) -> str:
    del place
    chosen = random.choice(expressions())
    from kvcalc.catalog.config.expression import names

    keys = {one: value(random) if random.random() < 0.5 else random.randrange(1, 5000) for one in names(chosen)}
    assert Scope(Keys(keys)).size(chosen) >= 0
    return "read"


@pytest.mark.parametrize("trial", [quantity, name, expression], ids=lambda trial: trial.__name__)
def test_words(trial: Trial, tmp_path: Path) -> None:
    trials(trial, tmp_path)
