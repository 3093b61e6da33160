"""The TOML files of users, each with its reader: models, GPUs, budgets, prices."""

import tomllib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import tomli_w

from kvcalc.catalog.budgets import read_budget
from kvcalc.catalog.gpus import gpu_names, load_gpu, spec_text
from kvcalc.catalog.price_file import read_prices
from tests.fuzz.mutation import structure, text
from tests.fuzz.trial import Trial, counted_model, ran, trials

ROOT = Path(__file__).parents[2]
CARDS = sorted((ROOT / "model_cards").glob("*.toml"))
BUDGET = {
    "schema": "kvcalc.budget/1",
    "defaults": {"max-model-len": "8K", "gpu": "h100-sxm"},
    "deployment": [
        {"name": "chat", "model": "llama-3-8b", "tensor-parallel-size": 1, "batch": 48, "price": 2.5,
         "limit": {"fits": True, "min-batch": 48, "max-tpot": "25ms", "max-usd-per-mtok": 0.25, "judge": "value"}},
        {"name": "long", "model": "qwen3-8b", "gpu": "l40s", "isl": "2k", "osl": 200,
         "limit": {"max-ttft": "1s", "min-tokens-per-second": 2000, "max-weight-gib": 20}},
    ],
}  # fmt: skip
PRICES = {"date": "2026-07-01", "source": "contract", "usd_per_gpu_hour": {"h100-sxm": 2.0, "l4": 0.5},
          "usd_per_instance_hour": {"p5.48xlarge": 30.0}}  # fmt: skip


def written(random: Random, path: Path, data: object) -> Path:
    """The file, its structure spoilt where TOML can say it, else its text."""
    try:
        whole = tomli_w.dumps(structure(random, data))
    except (TypeError, ValueError, AttributeError):  # TOML has no null, no huge and no nameless things
        whole = text(random, tomli_w.dumps(data))  # type: ignore[arg-type]
    if random.random() < 0.15:
        whole = text(random, whole)
    path.write_text(whole, encoding="utf-8", errors="surrogatepass")
    return path


@cache
def _table(text: str) -> Any:
    return tomllib.loads(text)


def made_model(random: Random, place: Path) -> Path:
    card = random.choice(CARDS).read_text(encoding="utf-8")
    return written(random, place / "model.toml", _table(card))


def made_gpu(random: Random, place: Path) -> Path:
    return written(random, place / "gpu.toml", _table(spec_text(random.choice(gpu_names()))))


def made_budget(random: Random, place: Path) -> Path:
    return written(random, place / "budget.toml", BUDGET)


def made_prices(random: Random, place: Path) -> Path:
    return written(random, place / "prices.toml", PRICES)


def model(random: Random, place: Path) -> str:
    path = made_model(random, place)
    return ran(random.choice([["kv", str(path)], ["models", str(path)], ["size", str(path), "--gpu", "h100-sxm"]]))


def gpu(random: Random, place: Path) -> str:
    path = made_gpu(random, place)
    return ran(random.choice([["gpus", str(path)], ["size", "smollm2-135m", "--gpu", str(path)],
                              ["size", "llama-3-8b", "--gpu", str(path), "-tp", "2", "--isl", "1k", "--osl", "99"],
                              ["prefill", "qwen3-8b", "--gpu", str(path)]]))  # fmt: skip


def budget(random: Random, place: Path) -> str:
    path = made_budget(random, place)
    return ran(["check", str(path), *random.choice([[], ["--json"], ["--format", "github"], ["--strict"]])])


def prices(random: Random, place: Path) -> str:
    path = made_prices(random, place)
    gpu = random.choice(["h100-sxm", "p5.48xlarge", "l4"])
    return ran(["size", "smollm2-135m", "--gpu", gpu, "--context", "1k", "--price-file", str(path)])


def read_model(random: Random, place: Path) -> str:
    return counted_model(made_model(random, place))


def read_gpu(random: Random, place: Path) -> str:
    load_gpu(str(made_gpu(random, place)))
    return "read"


def read_budgets(random: Random, place: Path) -> str:
    read_budget(made_budget(random, place))
    return "read"


def read_price_file(random: Random, place: Path) -> str:
    read_prices(str(made_prices(random, place)))
    return "read"


@pytest.mark.parametrize("trial", [model, gpu, budget, prices], ids=lambda trial: trial.__name__)
def test_tomls(trial: Trial, tmp_path: Path) -> None:
    trials(trial, tmp_path)
