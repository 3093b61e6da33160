"""Write docs/reference/accuracy.md from what the benchmarks say: every figure, worst first.

    python benchmarks/accuracy_page.py --shared DIR --results DIR            # prints the page
    python benchmarks/accuracy_page.py --shared DIR --results DIR --write    # and replaces it

DIR of --shared has the cases in their usual folders. Each benchmark runs once and leaves its JSON in DIR of --results;
one whose file is there already is not run again, so that the long ones can run beforehand.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import command_line
from markdown_tables import percent, table

from kvcalc import __version__
from kvcalc.clock import today

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "accuracy.md"
WORST = 12  # cells that a list of the worst has
FEWEST = 3  # points of a cell in it
WHOLES = ("cell", "model", "gpu")  # what is left out as one
# Each benchmark, with its inputs in the shared folder.
RUNS: dict[str, tuple[str, ...]] = {
    "time": (
        "accuracy_time.py", "--cases", "{}/perf_cases", "--refit",
        *(word for what in WHOLES for word in ("--leave-out", what)),
    ),
    "reports": ("accuracy_reports.py", "--reports", "{}/reports/speed.json"),
    "local": ("accuracy_local.py", "--points", "{}/reports/llama_bench.json", "--refit"),
    "speculation": ("accuracy_speculation.py", "--cases", "{}/perf_cases"),
    "simulation": ("accuracy_simulation.py", "--requests", "{}/requests/*.json"),
    "models": ("accuracy_models.py", "--configs", "{}/model_configs", "--facts", "{}/model_facts"),
    "capacity": (
        "accuracy_capacity.py", "--cases", "{}/kv_cases/capacity.json", "{}/kv_cases/questions.json",
        "{}/kv_cases/budgets.json", "--configs", "{}/model_configs",
    ),
    "memory": ("accuracy_reports.py", "--reports", "{}/reports/memory.json"),
    "serve": ("accuracy_serve.py", "--commands", "{}/engine_flags/commands.json"),
}  # fmt: skip
Found = dict[str, Any]


def results(name: str, shared: Path, folder: Path) -> Found:
    """What a benchmark says as JSON: from its file, else from a run that leaves it there."""
    path = folder / f"{name}.json"
    if not path.is_file():
        script, *words = RUNS[name]
        asked: list[str] = []
        for word in words:
            whole = word.replace("{}", str(shared))
            asked += [str(one) for one in sorted(Path(shared).glob(word[3:]))] if "*" in word else [whole]
        print(f"{name}: running {script}", file=sys.stderr)
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name(script)), *asked, "--json"], capture_output=True, text=True
        )
        if not done.stdout.strip():
            raise SystemExit(f"error: {script} gave no result: {done.stderr[-500:]}")
        path.write_text(done.stdout, encoding="utf-8")
    found: Found = json.loads(path.read_text(encoding="utf-8"))
    return found


def section(title: str, name: str, said: str) -> list[str]:
    script, *words = RUNS[name]
    command = " ".join(word.replace("{}", "DIR") for word in words)
    return [f"## {title}", "", f"    python benchmarks/{script} {command}", "", said]


def by_group(groups: Sequence[Found]) -> list[str]:
    """Groups of a benchmark, the largest error first: that of left-out cells where there is one."""
    good = [one for one in groups if one["points"] and one["median_abs_error"] is not None]

    def worst(one: Found) -> float:
        return float(one.get("cv_median_abs_error") or one["median_abs_error"])

    rows = [
        (one["group"], one["points"], one.get("left_out", one.get("unanswered", 0)), percent(one["median_abs_error"]),
         percent(one.get("cv_median_abs_error")), percent(one.get("coverage")))
        for one in sorted(good, key=worst, reverse=True)
    ]  # fmt: skip
    return table(("group", "points", "not expressed", "as shipped", "left out", "in range"), rows)


def worst_cells(points: Sequence[Found], cell_of: Callable[[Found], str | None]) -> list[str]:
    """The cells with the largest median error of at least a few points."""
    cells: dict[str, list[float]] = defaultdict(list)
    for point in points:
        cell = cell_of(point)
        if cell is not None and point["have"] and isinstance(point["want"], int | float) and point["want"]:
            cells[cell].append(point["have"] / point["want"] - 1)
    known = {cell: errors for cell, errors in cells.items() if len(errors) >= FEWEST}

    def error(cell: str) -> float:
        return statistics.median(map(abs, known[cell]))

    rows = [
        (cell, len(known[cell]), percent(error(cell)), f"{100 * statistics.median(known[cell]):+.0f} %")
        for cell in sorted(known, key=error, reverse=True)[:WORST]
    ]
    return table(("worst cells", "points", "median error", "of them signed"), rows)


def cells_of_cases(folder: Path) -> Callable[[Found], str | None]:
    """Model × GPU × engine of a case by its id; kernels have none."""
    cells: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            if case.get("model"):
                version = " ".join(str(one) for one in (case["engine"], case.get("engine_version")) if one)
                cells[case["id"]] = f"{case['model']}, {case['gpu']}, {version}, {case['metric']}"
    return lambda point: cells.get(point["id"])


def cells_of_local(path: Path) -> Callable[[Found], str | None]:
    rows = {row["id"]: row for row in json.loads(path.read_text(encoding="utf-8"))}

    def cell(point: Found) -> str:
        row = rows[point["id"]]
        return f"{row.get('gpu')}, {row.get('model')} {row['quant']}, {row['backend']} {row['test']}"

    return cell


def times(found: dict[str, Found], shared: Path) -> Iterator[str]:
    yield from section(
        "Public measurements", "time",
        "Kernels, decoding, serving, offline throughput and prompts. *Left out*: by constants that were fitted again "
        "without the cell (model, GPU and engine) that is scored, kernels without a fifth of the points. Serving again "
        "without the whole model, and without the whole GPU, that is scored. What prompts of equal length wait for in "
        "TensorRT-LLM only an H100 says.",
    )  # fmt: skip
    yield from by_group(found["time"]["groups"])
    rows = [(one["group"], one["points"], *(percent(one[what]) for what in WHOLES)) for one in found["time"]["wholes"]]
    yield from table(("serving, left out", "points", *(f"a {what}" for what in WHOLES)), rows)
    yield from worst_cells(found["time"]["points"], cells_of_cases(shared / "perf_cases"))
    yield from section(
        "Strangers' reports", "reports",
        "Single figures from public trackers, through the command line that asks for each. Local ones are behind the "
        "ranges of llama.cpp and behind no constant.",
    )  # fmt: skip
    yield from by_group(found["reports"]["groups"])
    yield from worst_points(found["reports"]["points"])
    yield from section(
        "llama.cpp", "local",
        "Results of llama-bench by backend. *Left out*: by constants that were fitted without the device. How fast "
        "prompts are on AMD, builds and drivers decide by a factor of two and more: no constant holds, and the range "
        "is that wide. Without `--backend` an AMD card is asked with HIP, an NVIDIA card with CUDA.",
    )  # fmt: skip
    yield from by_group(found["local"]["groups"])
    yield from worst_cells(found["local"]["points"], cells_of_local(shared / "reports" / "llama_bench.json"))


def worst_points(points: Sequence[Found]) -> list[str]:
    """Single figures with the largest error, and whether the range holds them."""
    good = [one for one in points if one["counts"] and one["have"] and isinstance(one["want"], int | float)]

    def factor(one: Found) -> float:
        return float(max(one["have"] / one["want"], one["want"] / one["have"]))

    rows = [
        (one["id"], one["group"], f"{one['have'] / one['want']:.2f}", held(one))
        for one in sorted(good, key=factor, reverse=True)[:WORST]
    ]
    return table(("worst reports", "group", "kvcalc / measured", "in range"), rows)


def held(one: Found) -> str:
    if one["low"] is None or one["high"] is None:
        return ""
    return "yes" if one["low"] <= one["want"] <= one["high"] else "no"


def speculation(found: dict[str, Found]) -> Iterator[str]:
    yield from section(
        "Speculation", "speculation",
        "`spec`: measured speed-ups. `spec_al`: accepted lengths, each from the other draft lengths of its drafter. "
        "`expected`: the paper's own figures from its acceptance and cost.",
    )  # fmt: skip
    yield from by_group(found["speculation"]["groups"])


def simulation(found: dict[str, Found]) -> Iterator[str]:
    yield from section(
        "Simulated requests", "simulation",
        "Real runs of vLLM, replayed with their prefix ids. *own*: with kvcalc's step times; *one factor*: all of them "
        "multiplied until the mean TPOT is the measured one. Then two kinds of steps by themselves, as medians: a full "
        "batch that decodes, and a prompt that has a step to itself (`benchmarks/recorded_steps.py`).",
    )  # fmt: skip
    rows, steps = [], []
    for run in found["simulation"]["runs"]:
        for kind, name in (("own", "own"), ("calibrated", f"× {run['factor'] or 0:.3f}")):
            errors = run[kind]
            if errors:
                names = ("ttft_mean", "ttft_p99", "tpot_mean", "tpot_p99", "e2e_mean")
                rows.append((f"{run['id']}, {name}", *(f"{100 * errors[one]:+.1f} %" for one in names)))
        of = run.get("steps") or {}
        shown = [f"{100 * of[name]:+.1f} %" if of.get(name) is not None else "" for name in ("full_batch", "prompts")]
        steps.append((run["id"], shown[0], of.get("seconds", ""), shown[1], of.get("lone_prompts", "")))
    yield from table(("run", "TTFT mean", "p99", "TPOT mean", "p99", "end to end"), rows)
    yield from table(("run", "full-batch decode step", "seconds", "prompts", "of them"), steps)


def counts(found: dict[str, Found]) -> Iterator[str]:
    yield from section(
        "Parameters, cache and file sizes", "models",
        "Parameters against the model's own class, built without weights and counted; cache and state against real "
        "cache objects; file sizes against the published totals, to the byte. "
        "[Measured, and explained](../explanation/models.md#measured-and-explained) says what differs.",
    )  # fmt: skip
    summary = found["models"]["summary"]
    names = {
        "parameters": "parameters",
        "kv_bytes_per_token": "growth of the cache per token",
        "fixed_bytes_per_sequence": "fixed state per sequence",
        "published": "published sizes and counts",
    }
    rows = []
    for key, name in names.items():
        compared = next(summary[key][one] for one in ("counted", "measured", "with_config") if one in summary[key])
        rows.append((name, compared, summary[key]["exact"]))
    yield from table(("", "compared", "equal"), sorted(rows, key=lambda row: row[2] / row[1]))


def fits(found: dict[str, Found]) -> Iterator[str]:
    yield from section(
        "What fits", "capacity",
        "Start-up logs (`capacity`), sizing questions and bug reports with known answers, and measured memory before "
        "the cache. [Memory before the cache](../explanation/memory.md) says what the ranges rest on.",
    )  # fmt: skip
    for name, figures in found["capacity"]["summary"].items():
        if isinstance(figures, dict):
            said = ", ".join(f"{key.replace('_', ' ')} {_short(value)}" for key, value in figures.items())
            yield f"- **{name}**: {said}"
    yield ""
    memory, serve = found["memory"]["groups"], found["serve"]["summary"]
    yield from section("Reports of memory", "memory", "Checks of single reports, each by its own command line.")
    yield from table(("", "checks", "judged", "wrong"), [
        (one["group"], one["points"], one.get("judged", 0), one.get("wrong", 0)) for one in memory
    ])  # fmt: skip
    yield from section("Pasted commands", "serve", "Published serving commands, and whether they are read as meant.")
    yield ""
    yield f"{serve['as_meant']} of {serve['commands']} commands as meant, {serve['checks']} settings compared."


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value)


def page(shared: Path, folder: Path) -> str:
    found = {name: results(name, shared, folder) for name in RUNS}
    lines = [
        "# Accuracy",
        "",
        "<!-- Written by benchmarks/accuracy_page.py; edits are lost. -->",
        "",
        "What kvcalc computes is compared with what others counted, printed or measured. The benchmarks read configs, "
        "start-up logs and measurements that are other people's and not in this repository; anybody's files of the "
        "same form will do. No constant belongs to a model. Errors are medians of |kvcalc / measured − 1|, ranges "
        "should hold 80 %, and the worst stands first.",
        "",
        f"Made on {today()} with version {__version__}. How fast kvcalc itself is, `python benchmarks/speed.py` says.",
        "",
        *times(found, shared),
        *speculation(found),
        *simulation(found),
        *counts(found),
        *fits(found),
    ]
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip("\n") + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=command_line.folder, required=True, help="folder of case folders")
    parser.add_argument("--results", type=Path, required=True, help="folder of the benchmarks' JSON")
    parser.add_argument("--write", action="store_true", help="replace the page")
    arguments = parser.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    text = page(arguments.shared.resolve(), arguments.results)
    if arguments.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
