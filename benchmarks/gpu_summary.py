"""What the steps of gpu_check.sh gave, as one JSON file and a line each: `gpu_summary.py WORK OUT.json`."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def main() -> None:
    work, out = map(Path, sys.argv[1:])
    lines = (work / "steps").read_text(encoding="utf-8").splitlines()
    steps = dict(step_of(work, *line.split("\t")) for line in lines)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit or None,
        "seconds": sum(step["seconds"] for step in steps.values()),
        "passed": all(step["passed"] for step in steps.values()),
        "steps": steps,
    }
    out.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, step in steps.items():
        word = "passed" if step["passed"] else f"FAILED ({step['exit_code']}, expected {step['expected']})"
        print(f"{name:14} {word:8} {step['seconds']:4} s  {said_of(step['answer'] or {})}")
    print(out)
    sys.exit(not result["passed"])


def step_of(work: Path, name: str, code: str, seconds: str, expected: str) -> tuple[str, dict[str, Any]]:
    """A step's name, and what it gave; it passed where it ended as expected, for the reason that was expected."""
    answer = work / f"{name}.json"
    texts = [work / f"{name}.{end}" for end in ("err", "out")]
    said = "".join(text.read_text(encoding="utf-8", errors="replace") for text in texts if text.is_file())[-4000:]
    wanted, _, why = expected.partition(" ")
    return name, {
        "exit_code": int(code),
        "expected": expected,
        "passed": code == wanted and why in said and "Traceback" not in said,
        "seconds": int(seconds),
        "answer": json.loads(answer.read_text(encoding="utf-8")) if answer.is_file() else None,
        "said": said,
    }


def said_of(answer: dict[str, Any]) -> str:
    """In a few words: how far off a run was, or what the probe found."""
    if "points" in answer:
        return probed(answer)
    result = answer.get("result") or {}
    accuracy = result.get("accuracy")
    if not accuracy:
        return ""
    said = f"off by {accuracy['mean_error']:.0%} on average, {accuracy['worst_error']:.0%} at worst"
    terms = [point for point in result["points"] if point["resolved"]]
    worst = max(terms, key=lambda point: abs(point["ratio"] - 1))
    where = f"batch {worst['batch']}, context {worst['context']}"
    return f"{said}; {where}: {worst['term']} by {worst['ratio'] - 1:+.0%}"


def probed(answer: dict[str, Any]) -> str:
    """Memory that stayed behind, graphs that differ, the quickest way to read."""
    left = [point["left_bytes"] for point in answer["points"] if point["left_bytes"] is not None]
    differ = sum(not point["same_tokens"] for point in answer["points"])
    reads = ", ".join(f"{name} {speed / 1e9:,.0f} GB/s" for name, speed in answer.get("read_bytes_per_s", {}).items())
    grown = f"{(max(left) - min(left)) / 1e6:,.1f} MB stayed behind, " if left else ""
    return f"{grown}{differ} graphs with other tokens; read: {reads}"


if __name__ == "__main__":
    main()
