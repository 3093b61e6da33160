"""How far simulated requests are from measured ones: with kvcalc's own step times, and with one constant.

python benchmarks/accuracy_simulation.py --requests FILE... [--json]

Two kinds of steps are taken out of each run and compared by themselves, a full batch that decodes and a prompt that has
its step to itself: `recorded_steps.py` says how.

Each file is a run of an engine (as shared/requests): its model, GPU, flags, and when each request came, had its first
token and its last. The engine's own clock counts: no time between client and engine is added.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import command_line
from recorded_steps import recorded

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.answers.simulate.calibrate import STATISTICS, errors, fitted
from kvcalc.answers.simulate.figures import Latencies
from kvcalc.answers.simulate.machine import simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.errors import KvcalcError
from kvcalc.simulator.traces.read import read_trace

# Which board a source's name for it is, where its own records say more: device_name of LLMServingSim's recordings and
# kernel profiles (bench/examples/RTXPRO6000/*/vllm/meta.json) is the Server Edition, whose memory is a ninth slower.
BOARDS = {("casys-kaist/LLMServingSim", "rtx-pro-6000"): "rtx-pro-6000-se"}
FLAGS = ("tensor_parallel_size", "data_parallel_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")


def flags_of(case: dict[str, Any], device: str) -> dict[str, Any]:
    """The flags that ask for the run."""
    given: dict[str, Any] = {name: str(case["flags"][name]) for name in FLAGS if case["flags"].get(name)}
    if case["flags"].get("enable_expert_parallel"):
        given["enable_expert_parallel"] = True
    if case.get("num_gpu_blocks"):
        given["num_gpu_blocks_override"] = str(case["num_gpu_blocks"])
    if case.get("gpu_memory_utilization"):
        given["gpu_memory_utilization"] = str(case["gpu_memory_utilization"])
    if case.get("enable_prefix_caching") is not None:
        given["enable_prefix_caching"] = case["enable_prefix_caching"]
    return given | {"gpu": device, "engine": case["engine"], "engine_version": case["engine_version"]}


def board_of(case: dict[str, Any]) -> str:
    """The GPU of a run, by its name or by what its source says of it."""
    named = (gpu for (source, name), gpu in BOARDS.items() if source in case.get("source", "") and name == case["gpu"])
    return next(named, str(case["gpu"]))


def judged(path: Path, models: dict[str, str]) -> dict[str, Any]:
    """One run: own step times and one constant."""
    case = json.loads(path.read_text(encoding="utf-8"))
    trace = read_trace(str(path))
    model = models.get(case["model"], case["model"])
    deployed = Deployed(ask(model, flags_of(case, board_of(case))))
    asked = SimulateSettings()
    mean = (sum(trace.requests.prompt) + sum(trace.requests.output)) / len(trace.requests)
    replica = replace(simulated(deployed, asked, mean), front_s=0.0)
    assert trace.measured is not None, "the file has no measured times"
    own = Latencies(run(replica, trace.requests), trace.requests)
    factor, calibrated = fitted(replica, trace.requests, sum(trace.measured.tpot_s) / len(trace.measured.tpot_s))
    return {
        "id": path.stem,
        "own": errors(own, trace.measured),
        "calibrated": errors(calibrated, trace.measured),
        "steps": recorded(case, deployed),
        "factor": factor,
        "preemptions": calibrated.outcome.counts.preemptions,
    }


def _signed(error: float | None) -> str:
    return "not seen" if error is None else f"{100 * error:+.1f} %"


def main() -> None:
    parser = command_line.parser(__doc__)
    parser.add_argument(
        "--requests", nargs="+", required=True, type=command_line.file, help="runs, as in shared/requests"
    )
    parser.add_argument("--model", nargs=2, action="append", default=[], metavar=("ID", "MODEL"),
                        help="what to ask kvcalc for, for a model id of the file")  # fmt: skip
    options = parser.parse_args()
    runs = []
    for path in options.requests:
        try:
            runs.append(judged(path, dict(options.model)))
        except KvcalcError as error:
            runs.append({"id": path.stem, "own": None, "calibrated": None, "factor": None, "reason": error.message})
    if options.json:
        command_line.print_json({"runs": runs})
        return
    for one in runs:
        print(one["id"], one.get("reason", ""))
        for kind in ("own", "calibrated"):
            for name in ("ttft", "tpot", "e2e"):
                found = [f"{100 * one[kind][f'{name}_{s}']:+6.1f}" for s in STATISTICS] if one[kind] else []
                print(f"  {kind:<11} {name:<5} {' '.join(found)}  % (mean, p50, p90, p99)")
        if one["factor"]:
            print(f"  factor {one['factor']:.3f}, full-batch decode step {_signed(one['steps']['full_batch'])}, "
                  f"prompts {_signed(one['steps']['prompts'])}")  # fmt: skip


if __name__ == "__main__":
    main()
