"""The JSON that every command prints, and its schema, generated from the report classes.

`python -m kvcalc.reports.envelope DIRECTORY` writes one file a command; the package ships them in `kvcalc/schemas/`.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from kvcalc.reports.base import Figure
from kvcalc.specs.base import Assumption, Source

# command → the result classes that its report may carry, in `kvcalc.reports.<command>`
RESULTS = {
    "size": ("SizeResult", "RankingResult"),
    "kv": ("KvResult",),
    "step": ("StepResult",),
    "curve": ("CurveResult",),
    "speculate": ("SpeculateResult",),
    "prefill": ("PrefillResult",),
    "compare": ("CompareResult",),
    "check": ("CheckResult",),
    "models": ("ModelsResult", "ModelResult"),
    "gpus": ("GpusResult", "GpuResult"),
    "diagnose": ("DiagnoseResult",),
    "calibrate": ("CalibrateResult",),
    "run": ("RunResult",),
}


def schema_of(command: str) -> dict[str, Any]:
    """The JSON schema of what `kvcalc <command> --json` prints."""
    module = import_module(f"kvcalc.reports.{command}")
    classes = [getattr(module, name) for name in RESULTS[command]]
    parts = [("result", c) for c in classes] + [("assumption", Assumption), ("source", Source), ("figure", Figure)]
    refs, defs = TypeAdapter.json_schemas(
        [(f"{key}{i}", "serialization", TypeAdapter(kind)) for i, (key, kind) in enumerate(parts)],
        ref_template="#/$defs/{model}",
    )
    found = list(refs.values())
    results, (assumption, source, figure) = found[: len(classes)], found[len(classes) :]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kvcalc.{command}/1",
        "type": "object",
        "required": ["schema", "kvcalc", "inputs", "result", "assumptions", "sources"],
        "properties": {
            "schema": {"const": f"kvcalc.{command}/1"},
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
    directory.mkdir(parents=True, exist_ok=True)
    for command in RESULTS:
        (directory / f"{command}.json").write_text(text_of(command), encoding="utf-8")


if __name__ == "__main__":
    import sys

    write_all(Path(sys.argv[1]))
