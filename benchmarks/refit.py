"""Refit the constants of the time estimate from case files: kernels first, engines second.

    python benchmarks/refit.py --cases DIR            # print residuals and cross-validation
    python benchmarks/refit.py --cases DIR --write    # and write the data files

Kernels go to gpu_specs/kernels/, engines and ranges to kvcalc/timing/.
"""

import argparse
import datetime
import json
from pathlib import Path

from fit_llamacpp import fit_llamacpp
from refit_kernels import fit_all, generic, sources, write

from kvcalc.catalog.data import data_dir

HEADER = "Written by benchmarks/refit.py. Seconds, and shares of the data sheet's dense peak and bandwidth."


def read_cases(folder: Path) -> dict[str, list[dict[str, object]]]:
    """Cases by group; those of quality 3 are left out."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        cases = json.loads(path.read_text(encoding="utf-8"))
        found[path.stem] = [case for case in cases if case.get("quality") != 3]
    return found


def write_kernels(folder: Path) -> None:
    cases = read_cases(folder)
    tables = fit_all(cases)
    kernels = data_dir("gpu_specs") / "kernels"
    date = datetime.date.today().isoformat()
    measured = [case for group in cases if group.startswith("k_") for case in cases[group]]
    for name, table in tables.items():
        write(kernels / f"{name}.toml", HEADER, {"evidence": sources(measured), "date": date} | table)
    llamacpp = [case for group in cases if group.startswith("llamacpp_xd") for case in cases[group]]
    for name, table in fit_llamacpp(llamacpp).items():
        whole = {"evidence": sources(llamacpp), "date": date, "weight_only_share": {"8": 1.0, "4": 1.0}}
        write(kernels / f"{name}.toml", HEADER, whole | table)
    shared = {
        "evidence": "medians over the measured GPUs",
        "date": date,
        "elementwise_share": 0.35,
        "weight_only_share": {"8": 0.84, "4": 0.75},
        "experts_flops_share": {"1": 0.5, "32": 0.3},
    }
    write(kernels / "generic.toml", HEADER, shared | generic(tables))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, help="folder of case files")
    parser.add_argument("--write", action="store_true", help="write the data files")
    arguments = parser.parse_args()
    if arguments.write:
        write_kernels(arguments.cases)


if __name__ == "__main__":
    main()
