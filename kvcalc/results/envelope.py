"""The JSON that every command prints, and its schema, generated from the report classes.

`python -m kvcalc.results.envelope DIRECTORY` writes one file a command; the package ships them in `kvcalc/schemas/`.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from kvcalc.results.base import Figure, schema_name
from kvcalc.specs.base import Assumption, Frozen, Source

# command → the result classes that its report may carry, each in its module of `kvcalc.results`
RESULTS = {
    "size": ("size.SizeResult", "ranking.RankingResult"),
    "kv": ("kv.KvResult",),
    "step": ("step.StepResult",),
    "curve": ("curve.CurveResult",),
    "speculate": ("speculate.SpeculateResult",),
    "prefill": ("prefill.PrefillResult",),
    "simulate": ("simulate.SimulateResult", "simulate.SweepResult"),
    "compare": ("compare.CompareResult",),
    "plan": ("plan.PlanResult",),
    "check": ("check.CheckResult",),
    "models": ("models.ModelsResult", "models.ModelResult"),
    "gpus": ("gpus.GpusResult", "gpus.GpuResult", "gpus.MachinesResult"),
    "diagnose": ("diagnose.DiagnoseResult",),
    "calibrate": ("calibrate.CalibrateResult", "calibration.CalibrationResult"),
    "run": ("run.RunResult",),
    "report": ("report.ReportResult",),
}


def result_classes(command: str) -> list[type[Frozen]]:
    """The classes that a command's `result` may have."""
    homes = (name.split(".") for name in RESULTS[command])
    return [getattr(import_module(f"kvcalc.results.{module}"), name) for module, name in homes]


def schema_of(command: str) -> dict[str, Any]:
    """The JSON schema of what `kvcalc <command> --json` prints."""
    from pydantic import TypeAdapter

    classes = result_classes(command)
    parts = [("result", c) for c in classes] + [("assumption", Assumption), ("source", Source), ("figure", Figure)]
    refs, defs = TypeAdapter.json_schemas(
        [(f"{key}{i}", "serialization", TypeAdapter(kind)) for i, (key, kind) in enumerate(parts)],
        ref_template="#/$defs/{model}",
    )
    found = list(refs.values())
    results, (assumption, source, figure) = found[: len(classes)], found[len(classes) :]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": schema_name(command),
        "type": "object",
        "required": ["schema", "kvcalc", "inputs", "result", "assumptions", "sources"],
        "properties": {
            "schema": {"const": schema_name(command)},
            "kvcalc": {"type": "string"},
            "inputs": {"type": "object"},
            "result": results[0] if len(results) == 1 else {"anyOf": results},
            "assumptions": {"type": "array", "items": assumption},
            "sources": {"type": "array", "items": source},
            "warnings": {"type": "array", "items": {"type": "string"}},
            "figures": {"type": "array", "items": figure},
        },
        "additionalProperties": False,
        "$defs": defs.get("$defs", {}),
    }


def text_of(command: str) -> str:
    """The schema as the shipped file has it."""
    return json.dumps(schema_of(command), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def write_all(directory: Path) -> None:
    """One schema file a command."""
    directory.mkdir(parents=True, exist_ok=True)
    for command in RESULTS:
        (directory / f"{command}.json").write_text(text_of(command), encoding="utf-8")


if __name__ == "__main__":
    import sys

    write_all(Path(sys.argv[1]))
