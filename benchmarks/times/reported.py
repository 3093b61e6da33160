"""Strangers' reports of servers as residuals of ranges: no constant saw them, and they err more than benchmarks' cells.

Only decode, and only where all clients ran at once: a queue has a range of its own. A source counts as one cell.
"""

import json
import shlex
from collections.abc import Hashable, Iterator
from pathlib import Path

import numpy as np
from accuracy_reports import answer, speed_points

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.specs.deployment import Layout
from kvcalc.timing.engine_profiles import profile_for
from kvcalc.timing.machine import maker_of, with_profile
from kvcalc.timing.ranges import BY_DOUBT, kinds, knowledge
from kvcalc.timing.replica import Replica

GROUP = "server TPOT"
FLAGS = ("--gpu", "--engine", "--engine-version", "-tp")


def reported(path: Path) -> Iterator[tuple[tuple[str, ...], float, Hashable]]:
    """(kinds, ln(measured / estimated), source) of each report; a measured GPU speaks for unmeasured ones too."""
    for case in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else ():
        if case["group"] != GROUP or case.get("doubtful_facts") or case.get("unit") != "tpot_ms":
            continue
        for point in speed_points(case, path.parent):
            if point.have and point.counts and not crowded(case["command"], path.parent):
                ratio = float(np.log(point.want / point.have))
                for known in kinds_of(case["command"], path.parent):
                    yield known, ratio, case["source_url"]


def crowded(command: str, folder: Path) -> bool:
    """Whether more clients ask than run at once."""
    words = shlex.split(command)
    found, _ = answer(command, folder)
    serving = (found or {}).get("result", {}).get("serving") or {}
    return "--concurrency" in words and serving.get("running", 0) < int(words[words.index("--concurrency") + 1])


def kinds_of(command: str, folder: Path) -> list[tuple[str, ...]]:
    """Names of the ranges that a report counts for, the most special of each first."""
    words = shlex.split(command)
    said = {flag: words[words.index(flag) + 1] for flag in FLAGS if flag in words}
    gpu, local = load_gpu(said["--gpu"]), folder / words[2]
    profile = profile_for(said.get("--engine", "vllm"), said.get("--engine-version"), maker_of(gpu))
    layout = Layout(tensor_parallel_size=int(said.get("-tp", 1)))
    model = load_model(str(local) if local.exists() else words[2])
    replica = Replica(model, layout, with_profile(gpu, profile))
    own = kinds(replica.machine, replica.routed, "decode", replica.knowledge)
    known = max(knowledge(replica.machine), replica.knowledge, key=BY_DOUBT.index)
    return [own, tuple(f"{kind}-unmeasured" for kind in own)] if known == "measured" else [own]
