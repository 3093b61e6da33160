"""How fast kvcalc is, each figure as a ratio: sweeps of one formula and of one model, commands from a cold start.

python benchmarks/speed.py [--json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from kvcalc.formulas.cache import kv_bytes_per_token, kv_cache_bytes
from kvcalc.formulas.step import (
    attention_flops_per_sequence,
    compute_time,
    decode_step_bytes,
    decode_step_flops,
    memory_time,
)

POINTS = 1_000_000
BLOCK = 16_384
COMMANDS = ("size llama-3-8b --gpu h100-sxm", "step llama-3-8b --gpu h100-sxm", "kv llama-3-8b", "--help")
# name, aim (20 s and 40 s where the loop takes 0.12 s), requests, clients, prefix cache with shared prompts
SIMULATIONS = (
    ("simulate, 74 at once, open", 167.0, 10_000, None, False),
    ("simulate, 74 at once, open", 167.0, 100_000, None, False),
    ("simulate, 1,000 clients", 167.0, 20_000, 1000, False),
    ("simulate, prefix cache, 74 at once", 333.0, 20_000, None, True),
)
# a page: 5 s where the interpreter takes 0.03 s
AIM_SWEEP, AIM_COMMAND, AIM_HELP, AIM_PLAN, AIM_REPORT = 10, 14, 5, 60, 167
# every GPU with a list price
PLAN = "plan llama-3.3-70b -q fp8 --isl 3000 --osl 500 --users 200 --ttft 2s --tpot 40ms"

REPORT = f"report llama-3-8b --gpu h100-sxm --format html -o {os.devnull}"
REPORTS = 3  # repeats of it


def best(run: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest run: what the machine can do when nothing disturbs it."""
    return min(timeit.repeat(run, number=1, repeat=repeats))


def step_bound(batch: Any, context: Any) -> Any:
    """The bound of a decode step of Llama-3-8B on an H100, from the same formulas as the commands use."""
    per_token = kv_bytes_per_token(layers=32, kv_heads=8, head_dim=128, bytes_per_element=2)
    moved = decode_step_bytes(16_060_000_000, batch, kv_cache_bytes(per_token, context))
    flops = decode_step_flops(8_030_000_000, batch, attention_flops_per_sequence(32, 32, 128, context))
    return np.maximum(memory_time(moved, 3.35e12), compute_time(flops, 989e12))


def sweep_row(dtype: str) -> dict[str, Any]:
    """A million (batch, context) points of the step formula, against multiplying the two arrays once.

    The sweep goes in blocks that stay in the processor's cache: the ten arrays of a step in one piece would spend most
    of the time on fresh memory pages.
    """
    rng = np.random.default_rng(0)
    batch = rng.integers(1, 1024, POINTS).astype(dtype)
    context = rng.integers(1, 131072, POINTS).astype(dtype)

    def sweep() -> object:
        bound = np.empty(POINTS)
        for i in range(0, POINTS, BLOCK):
            bound[i : i + BLOCK] = step_bound(batch[i : i + BLOCK], context[i : i + BLOCK])
        return bound

    ratio = best(sweep, 30) / best(lambda: batch * context, 60)
    return row(f"step formula, {POINTS:,} points, {dtype}", ratio, "one NumPy multiplication of the arrays", AIM_SWEEP)


def everything_row(model: str) -> dict[str, Any]:
    """Bounds and estimates of one model on every GPU, at every size of tensor parallelism, both types of cache."""
    from kvcalc.answers.deployed import Deployed
    from kvcalc.answers.question import ask
    from kvcalc.catalog.gpus import gpu_names
    from kvcalc.catalog.models import load_model
    from kvcalc.counting.work import Step
    from kvcalc.errors import KvcalcError
    from kvcalc.timing.passes import Pass

    load = cache(load_model)
    batches = np.arange(1, 201, dtype=float)

    def sweep() -> int:
        points = 0
        for gpu, tp, dtype in product(gpu_names(), ("1", "2", "4", "8"), ("auto", "fp8")):
            flags = {"gpu": gpu, "tensor_parallel_size": tp, "kv_cache_dtype": dtype}
            try:
                replica = Deployed(ask(model, flags, load=load)).replica
                found = Pass(replica, Step(decode=batches, context=2048))
                points += len(np.minimum(found.bound_s, found.time_s))
            except KvcalcError:
                continue  # the GPUs have no link of this size
        return points

    points = sweep()  # reads the specs
    return row(f"{model}: {points:,} points, every GPU × tp × cache dtype × batch", best(sweep, 3), "one second", 1)


def command_row(command: str, repeats: int) -> dict[str, Any]:
    """The whole process of a command against that of an interpreter that does nothing, run in turn."""
    script = Path(sys.executable).with_name("kvcalc")
    kvcalc = [str(script)] if script.exists() else [sys.executable, "-m", "kvcalc"]
    name, against = f"kvcalc {command}", "python -c pass"
    aim = {"--help": AIM_HELP, PLAN: AIM_PLAN, REPORT: AIM_REPORT}.get(command, AIM_COMMAND)

    # as installed: with bytecode, whatever the developer's shell says
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}

    def run(argv: list[str]) -> float:
        return timeit.timeit(lambda: subprocess.run(argv, check=True, capture_output=True, env=environment), number=1)

    try:
        run([*kvcalc, *command.split()])  # the first run writes bytecode
    except (OSError, subprocess.CalledProcessError) as error:
        return row(name, None, against, aim) | {"reason": str(error)}
    pairs = [(run([*kvcalc, *command.split()]), run([sys.executable, "-c", "pass"])) for _ in range(repeats)]
    ours, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    return row(name, ours / bare, against, aim) | {"seconds": ours}


def simulation_row(name: str, aim: float, count: int, closed: int | None, shared: bool) -> dict[str, Any]:
    """Requests of 512 tokens in and 500 out through the scheduler, per million, against 10⁷ turns of an empty loop."""
    from kvcalc.answers.simulate.machine import Simulated
    from kvcalc.answers.simulate.runs import run
    from kvcalc.simulator.settings import Settings
    from kvcalc.simulator.traffic import Length, Sharing, Traffic, requests_of

    times = step_times()
    slots = closed or 1024
    step = times.decode(74, 74 * 762, (), ())[0] + 74 / 500 * times.mixed(0, 0, (), [(0, 512)])
    traffic = Traffic(
        count=count, prompt=Length(512), output=Length(500), rate=None if closed else 74 / (500 * step), clients=closed,
        sharing=Sharing(256, 8) if shared else Sharing(),
    )  # fmt: skip
    settings = Settings(slots, 8192, 60 * max(slots, 200), prefix_caching=shared)
    requests = requests_of(traffic)
    replica = Simulated(settings, times)
    seconds = min(cpu_seconds(lambda: run(replica, requests)) for _ in range(3))
    ratio = seconds / count * 1e6 / cpu_seconds(empty_loop)
    return row(f"{name}, {count:,} requests, for a million", ratio, "10⁷ turns of an empty loop", aim)


def step_times() -> Any:
    """Those of llama-3-8b on one H100, as `simulate` has them."""
    from kvcalc.answers.deployed import Deployed
    from kvcalc.answers.question import ask
    from kvcalc.answers.simulate.machine import simulated
    from kvcalc.answers.simulate.settings import SimulateSettings

    return simulated(Deployed(ask("llama-3-8b", {"gpu": "h100-sxm"})), SimulateSettings(), 1000).times


def cpu_seconds(run: Callable[[], object]) -> float:
    """Of this process alone: other processes of the machine do not count."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def empty_loop() -> None:
    for _ in range(10**7):
        pass


def row(name: str, ratio: float | None, against: str, aim: float) -> dict[str, Any]:
    return {"name": name, "ratio": None if ratio is None else round(ratio, 2), "against": against, "aim": aim}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--repeats", type=int, default=15, help="runs of each command (default 15)")
    options = parser.parse_args()
    rows = [sweep_row(dtype) for dtype in ("float64", "int64")]
    rows.append(everything_row("llama-3-70b"))
    rows += [simulation_row(*one) for one in SIMULATIONS]
    rows += [command_row(command, options.repeats) for command in (*COMMANDS, PLAN)]
    rows.append(command_row(REPORT, min(REPORTS, options.repeats)))
    if options.json:
        print(json.dumps({"rows": rows}, indent=1))
        return
    for one in rows:
        ratio = f"{one['ratio']:.1f}" if one["ratio"] is not None else "failed"
        print(f"{one['name']:<74} {ratio:>7} x  {one['against']} (aim: at most {one['aim']})")


if __name__ == "__main__":
    main()
