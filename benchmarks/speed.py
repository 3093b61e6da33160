"""How fast kvcalc is, each figure as a ratio: sweeps of one formula and of one model, commands from a cold start.

python benchmarks/speed.py [--json]
"""

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

import command_line
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
MILLION = 1_000_000
# name, aim (20 s and 40 s where the loop takes 0.12 s), requests, clients, prefix cache with shared prompts
SIMULATIONS = (
    ("simulate, 74 at once, open", 167.0, 10_000, None, False),
    ("simulate, 74 at once, open", 167.0, 100_000, None, False),
    ("simulate, 1,000 clients", 167.0, 50_000, 1000, False),
    ("simulate, prefix cache, 74 at once", 333.0, 20_000, None, True),
)
AIM_COMMAND_RUNS, AIM_REFERENCE, AIM_MEMORY = 500.0, 1 / 80, 1.0
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
    from kvcalc.answers.simulate.runs import run

    replica, requests = simulated_load(count, closed, shared)
    ratio = in_loops(lambda: run(replica, requests), 5) / count * MILLION
    return row(f"{name}, {count:,} requests, for a million", ratio, "10⁷ turns of an empty loop", aim)


def simulated_load(count: int, closed: int | None, shared: bool = False) -> tuple[Any, Any]:
    """Requests of 512 tokens in and 1 to 999 out, about 74 at once or so many clients, and the engine."""
    from kvcalc.answers.simulate.machine import Simulated
    from kvcalc.simulator.settings import Settings
    from kvcalc.simulator.traffic import Length, Sharing, Traffic, requests_of

    times = step_times()
    slots = closed or 1024
    step = times.decode(74, 74 * 762, (), ())[0] + 74 / 500 * times.mixed(0, 0, (), [(0, 512)])
    traffic = Traffic(
        count=count, prompt=Length(512), output=Length(500, 1, 999), rate=None if closed else 74 / (500 * step),
        clients=closed, sharing=Sharing(256, 8) if shared else Sharing(),
    )  # fmt: skip
    return Simulated(Settings(slots, 8192, 100 * max(slots, 200), prefix_caching=shared), times), requests_of(traffic)


def command_runs_row(count: int = 100_000) -> dict[str, Any]:
    """The whole `simulate` command, from made traffic to percentiles: three runs, for the range, and what it can serve.

    Three times what one run may take.
    """
    from kvcalc.answers.simulate.ask import Asked, simulate_from

    _, requests = simulated_load(count, None)
    rate = str((count - 1) / requests.arrival_s[-1])
    asked = Asked("llama-3-8b", {"gpu": "h100-sxm"}, {"input_len": "512", "output_len": "1-999"},
                  {"requests": str(count), "request_rate": rate})  # fmt: skip
    ratio = in_loops(lambda: simulate_from(asked), 3) / count * MILLION
    name = f"simulate, the command with its range, {count:,} requests, for a million"
    return row(name, ratio, "10⁷ turns of an empty loop", AIM_COMMAND_RUNS)


def reference_row(count: int = 400) -> dict[str, Any]:
    """Jumps against the plain reference of the tests, which goes step by step and block by block."""
    from kvcalc.answers.simulate.runs import run

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.simulator.reference.run import simulate

    replica, requests = simulated_load(count, None)
    times = replica.times
    jump = min(cpu_seconds(lambda: run(replica, requests)) for _ in range(3))
    plain = cpu_seconds(lambda: simulate(replica.settings, requests, times))  # type: ignore[no-untyped-call]
    return row(f"simulate, {count:,} requests, jumps", jump / plain, "the reference, step by step", AIM_REFERENCE)


def memory_row(count: int = MILLION) -> dict[str, Any]:
    """The most that a process of its own holds while it simulates a million requests, in decimal gigabytes."""
    code = "import resource; from speed import simulated_load; from kvcalc.answers.simulate.runs import run"
    script = f"{code}; run(*simulated_load({count}, None)); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    here = Path(__file__).resolve().parent
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=here)
    kib = int(done.stdout.split()[-1])
    return row(f"simulate, memory of {count:,} requests", kib * 1024 / 1e9, "one gigabyte", AIM_MEMORY)


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


def in_loops(run: Callable[[], object], repeats: int) -> float:
    """Processor time in turns of 10⁷ of an empty loop: the median of runs, each between two loops of its own.

    How fast a busy machine is changes from second to second: its fastest loop and fastest run do not belong together.
    """
    found = []
    before = cpu_seconds(empty_loop)
    for _ in range(repeats):
        ours, after = cpu_seconds(run), cpu_seconds(empty_loop)
        found.append(2 * ours / (before + after))
        before = after
    return statistics.median(found)


def empty_loop() -> None:
    for _ in range(10**7):
        pass


def row(name: str, ratio: float | None, against: str, aim: float) -> dict[str, Any]:
    return {"name": name, "ratio": None if ratio is None else round(ratio, 4), "against": against, "aim": aim}


def main() -> None:
    parser = command_line.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="runs of each command (default 15)")
    options = parser.parse_args()
    rows = [sweep_row(dtype) for dtype in ("float64", "int64")]
    rows.append(everything_row("llama-3-70b"))
    rows += [simulation_row(*one) for one in SIMULATIONS]
    rows += [command_runs_row(), reference_row(), memory_row()]
    rows += [command_row(command, options.repeats) for command in (*COMMANDS, PLAN)]
    rows.append(command_row(REPORT, min(REPORTS, options.repeats)))
    if options.json:
        command_line.print_json({"rows": rows})
        return
    for one in rows:
        ratio = f"{one['ratio']:.3g}" if one["ratio"] is not None else "failed"
        print(f"{one['name']:<74} {ratio:>7} x  {one['against']} (aim: at most {one['aim']:.3g})")


if __name__ == "__main__":
    main()
