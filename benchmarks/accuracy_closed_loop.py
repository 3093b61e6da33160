"""Simulated closed loops against the steady state that every command gives: two ways to the same figures.

python benchmarks/accuracy_closed_loop.py --cases DIR [--most 64] [--engine vLLM] [--json]

Each setting of the `serving_*` cases is simulated with as many clients, ten requests a client and lengths spread by a
tenth, and its mean TPOT and its tokens/s are compared with those of `size`. No measured value is used.

Where the two part, and why:
- short answers beside many prompts (1024/128 and 1000/100 at 16 to 64 clients): 1.3 to 2.3 prompts share a step, and
  what a step pays once for prompts (launches, links' latencies: up to a sixth of a prompt at 8 GPUs) is shared too; the
  steady state lets every prompt ride alone, so its TPOT is longer;
- few clients with long prompts (8000/100 at 4): the steady queue of prompts counts a request among those it waits for;
  a closed loop of N has N - 1 others, so its time to first token is longer;
- a pool that holds the mean of all clients but not their sum at every moment (1024/8192 at 64): requests are stopped,
  which no steady state has.
"""

import json
from pathlib import Path
from statistics import median
from typing import Any

import command_line
import numpy as np

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import ask
from kvcalc.answers.simulate.figures import Latencies
from kvcalc.answers.simulate.machine import simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.errors import KvcalcError
from kvcalc.simulator.traffic import Length, Traffic, requests_of

ENGINES = {"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "trtllm"}
DTYPES = {"bf16": None, "fp16": None, "fp8": "fp8", "mxfp4": None, "nvfp4": "nvfp4"}
SPREAD = 0.1  # of a length, either way
WAVES = 10
LIMIT_TPOT, LIMIT_THROUGHPUT = 0.02, 0.03


def flags_of(case: dict[str, Any]) -> dict[str, Any]:
    """The flags that ask for a case."""
    found: dict[str, Any] = {
        "gpu": case["gpu"].replace("_", "-"),
        "engine": ENGINES[case["engine"]],
        "tensor_parallel_size": str(case.get("tp") or 1),
        "pipeline_parallel_size": str(case.get("pp") or 1),
        "input_len": str(case["input_len"]),
        "output_len": str(case["output_len"]),
        "concurrency": str(case["batch"]),
    }
    if (case.get("ep") or 1) > 1:
        found["enable_expert_parallel"] = True
    if DTYPES.get(case["weights_dtype"]):
        found["quantization"] = DTYPES[case["weights_dtype"]]
    if case.get("kv_dtype") == "fp8":
        found["kv_cache_dtype"] = "fp8"
    return found


def compared(case: dict[str, Any]) -> dict[str, Any]:
    """Relative differences of TPOT and tokens/s, simulated over steady."""
    deployed = Deployed(ask(case["model"], flags_of(case)))
    steady = Performance(deployed).serving
    if steady is None or steady.tpot_s is None or steady.waiting:
        raise KvcalcError("not all clients run at once", hint="none")
    prompt, output, clients = case["input_len"], case["output_len"], case["batch"]
    traffic = Traffic(max(WAVES * clients, 200), _around(prompt), _around(output), clients=clients)
    requests = requests_of(traffic)
    settings = SimulateSettings()
    found = Latencies(run(simulated(deployed, settings, prompt + output), requests), requests)
    return {
        "case": f"{case['model']}, {case['gpu']}, {case['engine']}, {prompt}/{output}, {clients} clients",
        "tpot": float(found.tpot[found.tpot > 0].mean()) / steady.tpot_s.value - 1,
        "throughput": sustained(found, clients) / steady.output_tokens_per_s.value - 1,
    }


def sustained(found: Latencies, clients: int) -> float:
    """Output tokens per second while every client is busy, by Little's law: no client waits at the end."""
    return float(clients * np.mean(found.requests.output) / found.e2e.mean())


def _around(mean: int) -> Length:
    low, high = round(mean * (1 - SPREAD)), round(mean * (1 + SPREAD))
    return Length((low + high) / 2, max(1, low), max(1, high))


def cases_of(folder: Path, engine: str, most: int) -> list[dict[str, Any]]:
    """Every setting once, whatever was measured of it."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for path in sorted(folder.glob("serving_*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            names = (
                "model",
                "gpu",
                "tp",
                "pp",
                "ep",
                "dp",
                "weights_dtype",
                "kv_dtype",
                "input_len",
                "output_len",
                "batch",
            )
            if case["engine"] == engine and (case.get("batch") or most + 1) <= most and (case.get("dp") or 1) == 1:
                found.setdefault(tuple(case.get(name) for name in names), case)
    return list(found.values())


def main() -> None:
    parser = command_line.parser(__doc__)
    parser.add_argument("--cases", required=True, type=command_line.folder, help="folder of serving_*.json")
    parser.add_argument("--engine", default="vLLM", choices=ENGINES)
    parser.add_argument("--most", type=int, default=64, help="clients (default 64)")
    options = parser.parse_args()
    rows, reasons = [], []
    for case in cases_of(options.cases, options.engine, options.most):
        try:
            rows.append(compared(case))
        except KvcalcError as error:
            reasons.append(error.message)
    if options.json:
        command_line.print_json({"rows": rows, "left_out": reasons})
        return
    for name, limit in (("tpot", LIMIT_TPOT), ("throughput", LIMIT_THROUGHPUT)):
        found = sorted(rows, key=lambda one: abs(one[name]))
        inside = sum(abs(one[name]) <= limit for one in rows)
        print(f"{name:<11} median {median(abs(one[name]) for one in rows):.2%}, worst {found[-1][name]:+.2%} "
              f"({found[-1]['case']}); {inside} of {len(rows)} within {limit:.0%}")  # fmt: skip
    for reason in sorted(set(reasons)):
        print(f"left out, {reasons.count(reason)} times: {reason}")


if __name__ == "__main__":
    main()
