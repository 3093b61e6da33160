"""Files of requests and results of benchmarks, spoilt."""

import json
from pathlib import Path
from random import Random

import pytest

from kvcalc.catalog.bench.read import read_results
from kvcalc.simulator.traces.read import read_trace
from tests.catalog.bench.test_read import LLAMA_BENCH, VLLM
from tests.fuzz.mutation import structure, text
from tests.fuzz.trial import Trial, ran, trials
from tests.simulator.test_traces import AZURE, LOG, MOONCAKE

BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"


def made_trace(random: Random, place: Path) -> Path:
    path = place / "trace"
    made = random.choice([AZURE, BURST, MOONCAKE, LOG])
    if not isinstance(made, str):
        made = "\n".join(json.dumps(structure(random, one)) for one in made)
    path.write_text(text(random, made) if random.random() < 0.7 else made, encoding="utf-8", errors="surrogatepass")
    return path


def trace(random: Random, place: Path) -> str:
    path = made_trace(random, place)
    flag = random.choice(["--trace", "--trace", "--calibrate-from"])
    more = ["--isl", "100", "--osl", "9", "--request-rate", "5", "--requests", "9"] if flag != "--trace" else []
    return ran(["simulate", "smollm2-135m", "--gpu", "l4", flag, str(path), *more])


def read_traces(random: Random, place: Path) -> str:
    read_trace(str(made_trace(random, place)))
    return "read"


def made_results(random: Random, place: Path) -> Path:
    path = place / "results.json"
    made = structure(random, random.choice([LLAMA_BENCH, VLLM, [VLLM, VLLM], LOG]))
    written = json.dumps(made)
    path.write_text(text(random, written) if random.random() < 0.3 else written, encoding="utf-8",
                    errors="surrogatepass")  # fmt: skip
    return path


def results(random: Random, place: Path) -> str:
    path = made_results(random, place)
    out = ["-o", str(place / "mine.toml")]
    return ran(["calibrate", "--from", str(path), "--model", "smollm2-135m", "--gpu", "l4", *random.choice([[], out])])


def read_result_files(random: Random, place: Path) -> str:
    read_results(made_results(random, place))
    return "read"


@pytest.mark.parametrize("trial", [trace, results], ids=lambda trial: trial.__name__)
def test_requests(trial: Trial, tmp_path: Path) -> None:
    trials(trial, tmp_path)
