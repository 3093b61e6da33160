"""Strangers' reports of servers as residuals of ranges: no constant saw them, and they err more than benchmarks' cells.

Only decode, and only where all clients ran at once: a queue has a range of its own. A source counts as one cell.
"""

import json
import shlex
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_reports import answer, speed_points

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.specs.base import field_names
from kvcalc.specs.deployment import Deployment
from kvcalc.timing.ranges import BY_DOUBT, kinds, knowledge

GROUP = "server TPOT"


def reported(path: Path) -> Iterator[tuple[tuple[str, ...], float, Hashable]]:
    """(kinds, ln(measured / estimated), source) of each report; a measured GPU speaks for unmeasured ones too."""
    for case in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else ():
        if case["group"] != GROUP or case.get("doubtful_facts") or case.get("unit") != "tpot_ms":
            continue
        for point in speed_points(case, path.parent):
            found, _ = answer(case["command"], path.parent)
            if found is None or not point.have or not point.counts or found["result"]["serving"]["waiting"]:
                continue
            ratio = float(np.log(point.want / point.have))
            for known in kinds_of(found["inputs"], shlex.split(case["command"])[2], path.parent):
                yield known, ratio, case["source_url"]


def kinds_of(inputs: dict[str, Any], model: str, folder: Path) -> list[tuple[str, ...]]:
    """Names of the ranges that an answer counts for, the most special of each first.

    Args:
        inputs: of the command's own answer: what it was asked.
        model: as the command names it.
        folder: where the command ran.
    """
    usual = Deployment()
    said = {name: inputs[name] for name in field_names(Deployment) if inputs[name] != getattr(usual, name)}
    local = folder / model
    asked = ask(str(local) if local.exists() else model, {"gpu": inputs["gpu"]} | said)
    replica = Deployed(asked).replica
    own = kinds(replica.machine, replica.routed, "decode", replica.knowledge)
    known = max(knowledge(replica.machine), replica.knowledge, key=BY_DOUBT.index)
    return [own, tuple(f"{kind}-unmeasured" for kind in own)] if known == "measured" else [own]
