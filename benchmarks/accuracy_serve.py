"""Whether published serving commands are read as they are meant.

    python benchmarks/accuracy_serve.py --commands FILE [--flags FILE] [--json]

FILE has cases {`id`, `command`, `expect`, `files`}. Each command is given to `kvcalc size --serve` with a model of
kvcalc's own beside it, one with experts or without, and `inputs` is compared with what the case expects.
The FILE of flags has each flag of the engines with the class of what it changes: is it used, listed or warned of?
"""

import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import command_line

from kvcalc.catalog.serve.table import index
from kvcalc.cli.app import run

Case = dict[str, Any]
# The case's name of a setting, and kvcalc's.
NAMES = {
    "tensor_parallel": "tensor_parallel_size",
    "pipeline_parallel": "pipeline_parallel_size",
    "data_parallel": "data_parallel_size",
    "expert_parallel": "enable_expert_parallel",
    "memory_fraction": "gpu_memory_utilization",
    "memory_fraction_of": "memory_fraction_of",
    "max_model_len": "max_model_len",
    "max_num_seqs": "max_num_seqs",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "block_size": "block_size",
    "kv_cache_dtype": "kv_cache_dtype",
    "prefix_caching": "enable_prefix_caching",
    "ctx_total": "context_tokens",
    "slots": "slots",
    "speculation": "speculation",
}
STAND_INS = {True: "gpt-oss-120b", False: "llama-3-70b"}  # with experts, without


def answer(case: Case, gpu: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of `kvcalc size` in a folder with the case's files."""
    expect = case["expect"]
    model = STAND_INS[bool(expect.get("expert_parallel"))]
    words = ["size", model, "--gpu", gpu, "--serve", case["command"], "--json"]
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(out), redirect_stderr(err):
        for name, text in case.get("files", {}).items():
            (Path(folder) / name).write_text(text)
        code = run(words)
    return code, out.getvalue(), err.getvalue()


def checks(case: Case, gpu: str) -> Iterator[dict[str, Any]]:
    """What is compared, a row each: `name`, `have`, `want`, `passed`."""
    expect = case["expect"]
    code, out, err = answer(case, gpu)
    counting = [name for name in expect.get("unresolved", ()) if name in ("$TP", "$PP", "$DP")]
    if counting:
        passed = code == 2 and all(name in err for name in counting)
        yield {"name": "unresolved", "have": err.splitlines()[0], "want": counting, "passed": passed}
        return
    if code:
        yield {"name": "answered", "have": err.strip(), "want": 0, "passed": False}
        return
    answered = json.loads(out)
    inputs, serve = answered["inputs"], answered["inputs"]["serve"]
    found = {ours: inputs.get(theirs) for ours, theirs in NAMES.items()}
    found |= {"model": serve["model"], "gpus": answered["result"]["gpus"], "models": serve.get("models")}
    found |= {"ignored": serve["ignored"], "unread_files": serve["unread_files"], "not_options": serve["unknown"]}
    for name, want in expect.items():
        if name in found:
            have = found[name]
            if name == "expert_parallel":  # a number of ranks in some engines, a switch in kvcalc
                want = want is True or want > 1
            if isinstance(want, dict) and isinstance(have, dict):
                have = {key: have.get(key) for key in want}
            yield {"name": name, "have": have, "want": want, "passed": have == want}


# What becomes of a flag, by the class of what it changes. Some that change nothing in newer versions did in older ones.
TREATED = {
    "sizes": {"used", "not modelled"},
    "times": {"used", "not modelled"},
    "traffic": {"used", "not modelled"},
    "neither": {"ignored"},
}
NO_OPTION = "not an option"  # published in commands, though no version has it


def flag_rows(flags: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each spelling, what it is taken for, and whether that suits its class."""
    for flag in flags:
        lines = ("llamacpp", "llamabench") if flag["engine"] == "llamacpp" else (flag["engine"],)
        for name in (*flag["names"], *flag.get("short", ())):
            if name.startswith("<"):
                continue  # the model's place
            found = next((index(line)[name] for line in lines if name in index(line)), None)
            use = found.use if found else None
            suits = use is None if flag["status"] == NO_OPTION else use in TREATED[flag["class"]]
            yield {"engine": flag["engine"], "flag": name, "class": flag["class"], "use": use, "suits": suits}


def main() -> int:
    parser = command_line.parser(__doc__)
    parser.add_argument("--commands", type=command_line.file, required=True, nargs="+")
    parser.add_argument("--flags", type=command_line.file)
    parser.add_argument("--gpu", default="h200-sxm")
    asked = parser.parse_args()
    cases = [case for path in asked.commands for case in json.loads(path.read_text(encoding="utf-8"))]
    rows = [{"id": case["id"], "checks": list(checks(case, asked.gpu))} for case in cases]
    right = [row for row in rows if all(one["passed"] for one in row["checks"])]
    summary = {"commands": len(rows), "as_meant": len(right), "checks": sum(len(row["checks"]) for row in rows)}
    listed = json.loads(asked.flags.read_text(encoding="utf-8"))["flags"] if asked.flags else []
    flags = list(flag_rows(listed))
    if asked.flags:
        summary |= {"flags": len(listed), "spellings": len(flags), "as_classed": sum(row["suits"] for row in flags)}
    if asked.json:
        command_line.print_json({"cases": rows, "summary": summary})
        return 0
    for row in rows:
        for one in row["checks"]:
            if not one["passed"]:
                print(f"{row['id']}: {one['name']} {one['have']!r}, meant {one['want']!r}")
    print(f"{summary['as_meant']} of {summary['commands']} commands as meant, {summary['checks']} settings compared")
    for row in flags:
        if not row["suits"]:
            print(f"{row['engine']} {row['flag']}: {row['class']}, taken as {row['use']}")
    if asked.flags:
        print(f"{summary['as_classed']} of {len(flags)} spellings of {len(listed)} flags as classed")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.exit(main())
