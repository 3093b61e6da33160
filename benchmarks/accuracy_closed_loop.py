"""Simulated closed loops against the steady state that every command gives: two ways to the same figures.

python benchmarks/accuracy_closed_loop.py --cases DIR [--most 64] [--engine vLLM] [--spread 0.5] [--json]

Each setting of the `serving_*` cases is simulated with as many clients, ten requests a client and lengths from half of
the mean to one and a half times (`--spread 0.1`: as benchmarks draw them); of few clients several such runs, with other
lengths. Mean TPOT, mean TTFT and tokens/s are compared with those of the steady state for the lengths that were drawn.
No measured value is used.

A pool that holds the mean of all clients but not their sum at every moment (1024/8192 at 64) stops requests, which no
steady state has.
"""

import json
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

import command_line
import numpy as np

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import clients as clients_of
from kvcalc.answers.question import ask
from kvcalc.answers.simulate.figures import Latencies
from kvcalc.answers.simulate.machine import Simulated, simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.errors import KvcalcError
from kvcalc.simulator.traffic import Length, Traffic, requests_of
from kvcalc.timing.prompts import MIXED, Requests
from kvcalc.timing.replica import Replica
from kvcalc.timing.serving import steady_state

ENGINES = {"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "trtllm"}
DTYPES = {"bf16": None, "fp16": None, "fp8": "fp8", "mxfp4": None, "nvfp4": "nvfp4"}
WAVES = 10
ENOUGH = 1000  # requests in all, of a setting
LIMIT_TPOT, LIMIT_THROUGHPUT, LIMIT_TTFT = 0.02, 0.03, 0.10


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


def compared(case: dict[str, Any], spread: float) -> dict[str, Any]:
    """Relative differences of TPOT, TTFT and tokens/s, simulated over steady."""
    deployed = Deployed(ask(case["model"], flags_of(case)))
    asked = clients_of(deployed)
    if asked is None or asked.waiting:
        raise KvcalcError("not all clients run at once", hint="none")
    clients = case["batch"]
    count = max(WAVES * clients, 200)
    replica = simulated(deployed, SimulateSettings(), case["input_len"] + case["output_len"])
    runs = [_one_run(case, spread, deployed.replica, replica, seed) for seed in range(ceil(ENOUGH / count))]
    load = f"{case['input_len']}/{case['output_len']}, {clients} clients"
    return {
        "case": f"{case['model']}, {case['gpu']}, {case['engine']}, {load}",
        "preemptions": sum(one.pop("preemptions") for one in runs),
    } | {name: float(np.mean([one[name] for one in runs])) for name in runs[0]}


def _one_run(case: dict[str, Any], spread: float, timed: Replica, replica: Simulated, seed: int) -> dict[str, Any]:
    prompt, output, clients = case["input_len"], case["output_len"], case["batch"]
    count = max(WAVES * clients, 200)
    traffic = Traffic(count, _around(prompt, spread), _around(output, spread), clients=clients, seed=seed)
    requests = requests_of(traffic)
    # of 200 lengths the mean is up to 4 % off: the steady state is asked for those that were drawn
    prompt, output = float(np.mean(requests.prompt)), float(np.mean(requests.output))
    loop = Requests(prompt, output, waves=count / clients, spread=spread)
    steady = steady_state(timed, loop, clients)
    assert steady.tpot is not None
    found = Latencies(run(replica, requests), requests)
    return {
        "tpot": float(found.tpot[found.tpot > 0].mean() / steady.tpot.value) - 1,
        "ttft": float(found.ttft.mean() / steady.ttft.value) - 1,
        "throughput": sustained(found, clients) / float(clients * output / steady.whole_s(output)) - 1,
        "preemptions": found.outcome.counts.preemptions,
    }


def sustained(found: Latencies, clients: int) -> float:
    """Output tokens per second while every client is busy, by Little's law: no client waits at the end."""
    return float(clients * np.mean(found.requests.output) / found.e2e.mean())


def _around(mean: int, spread: float) -> Length:
    low, high = round(mean * (1 - spread)), round(mean * (1 + spread))
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
    parser.add_argument("--spread", type=float, default=MIXED, help=f"of a length, either way (default {MIXED:g})")
    options = parser.parse_args()
    rows, reasons = [], []
    for case in cases_of(options.cases, options.engine, options.most):
        try:
            rows.append(compared(case, options.spread))
        except KvcalcError as error:
            reasons.append(error.message)
    if options.json:
        command_line.print_json({"rows": rows, "left_out": reasons})
        return
    for name, limit in (("tpot", LIMIT_TPOT), ("throughput", LIMIT_THROUGHPUT), ("ttft", LIMIT_TTFT)):
        found = sorted(rows, key=lambda one: abs(one[name]))
        inside = sum(abs(one[name]) <= limit for one in rows)
        print(f"{name:<11} median {median(abs(one[name]) for one in rows):.2%}, worst {found[-1][name]:+.2%} "
              f"({found[-1]['case']}); {inside} of {len(rows)} within {limit:.0%}")  # fmt: skip
    for reason in sorted(set(reasons)):
        print(f"left out, {reasons.count(reason)} times: {reason}")


if __name__ == "__main__":
    main()
