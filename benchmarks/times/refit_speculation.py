"""The range of speed-ups by drafts, from measured ones whose cell (target, GPU, engine) is left out."""

import json
import re
from pathlib import Path

import numpy as np
from accuracy_reports import speed_points
from accuracy_speculation import read, speedups
from times.fit_ranges import fit_range
from times.refit_kernels import rounded

import kvcalc.answers.speculate.rounds as rounds

SPECULATION = Path(rounds.__file__).with_name("speculation.toml")
REPORTED = "speculation"  # the group of strangers' reports
BY_HAND = "--engine llamacpp"  # whose range is: the host samples, and three reports are of one model


def refit(cases: Path, reports: Path, save: bool) -> None:
    """Fit, print and, if asked, write the range: in shares of the prediction."""
    found: list[tuple[float, str]] = []
    for case, one in zip(said := read(cases, "spec"), speedups(said), strict=True):
        if one.have and one.want:
            found.append((float(np.log(one.want / one.have)), f"{case['model']} {case['gpu']} {case['engine']}"))
    for case in json.loads(reports.read_text(encoding="utf-8")) if reports.is_file() else ():
        if case["group"] == REPORTED and not case.get("doubtful_facts") and BY_HAND not in case["command"]:
            good = [one for one in speed_points(case, reports.parent) if one.have and one.counts]
            found += [(float(np.log(one.want / (one.have or 1))), case["source_url"]) for one in good]
    made = fit_range(np.array([ratio for ratio, _ in found]), [cell for _, cell in found])
    print(f"speed-up by drafts{made.low:>23.2f}{made.high:>7.2f}{made.points:>7}{made.cells:>5}{made.coverage:>7.0%}")
    if save:
        text = SPECULATION.read_text(encoding="utf-8")
        ends = rounded({"low": made.low, "high": made.high})
        lines = f"low = {ends['low']}\nhigh = {ends['high']}\npoints = {made.points}\ncells = {made.cells}\n"
        rest = r"\[range\.speedup\]\n(?:[a-z]+ = .*\n)+"
        SPECULATION.write_text(re.sub(rest, f"[range.speedup]\n{lines}", text), encoding="utf-8")
        rounds.speculation_constants.cache_clear()
