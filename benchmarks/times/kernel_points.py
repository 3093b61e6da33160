"""Kernel cases against the shipped constants, and against constants fitted without a fifth of the cases."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from times.fit_kernels import FORMS, Form, fit, fixed_share, predict, rows_of
from times.fit_links import by_group, fit_group, library_of, time_with
from times.kernel_cases import Case
from times.refit_kernels import TABLES

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.kernels import load_kernels
from kvcalc.errors import KvcalcError
from kvcalc.specs.kernels import AllReduceKernel, Kernels

LINKS = "k_allreduce"
KERNEL_KINDS = {
    "k_gemm": "gemm", "k_attn_decode": "attention", "k_mla_decode": "latent-attention",
    "k_attn_prefill": "prefill-attention", "k_moe": "experts", LINKS: "all-reduce",
}  # fmt: skip
FOLDS = 5
SEED = 0
ODD = (KvcalcError, ArithmeticError, LookupError, TypeError, ValueError)  # what a case that is not in the form raises


def shipped(group: str, cases: Sequence[Case]) -> tuple[Any, dict[int, str]]:
    """Seconds of every case of a group by the constants in the data files; reasons where there is no answer."""
    found, reasons = np.full(len(cases), np.nan), {}
    places = {id(case): place for place, case in enumerate(cases)}
    form = next((one for one in FORMS if one.group == group), None)
    if form is None and group != LINKS:
        return found, dict.fromkeys(range(len(cases)), f"no formula for group {group}")
    parts = defaultdict(list)
    for place, case in enumerate(cases):
        try:
            parts[case["gpu"], *(_link_key(case) if form is None else form.key(case))].append(case)
        except ODD as error:
            reasons[place] = reason_of(error)
    for (gpu, *key), some in parts.items():
        # Together where all can be answered, else one by one: a bad case must not take its row along.
        for batch in (some, *([one] for one in some)):
            where = [places[id(case)] for case in batch]
            try:
                found[where] = _seconds_of(form, gpu, key, batch)
                reasons = {place: reason for place, reason in reasons.items() if place not in where}
            except ODD as error:
                reasons |= dict.fromkeys(where, reason_of(error))
                continue
            if len(batch) == len(some):
                break
    return found, reasons


def _seconds_of(form: Form | None, gpu: str, key: Sequence[str], cases: Sequence[Case]) -> Any:
    """Seconds of cases that share a row."""
    spec = load_gpu(gpu)
    kernels = load_kernels(spec)
    if form is None:
        row, nccl = _link_row(kernels, key[0], int(key[1]))
        return time_with(row, nccl, cases, spec)
    return predict(form, cases, spec, _constants(form, kernels, key, cases))


def reason_of(error: Exception) -> str:
    """Why a case cannot be expressed, in words."""
    return str(error) if isinstance(error, KvcalcError) else f"the case states no usable {error}"


def _constants(form: Form, kernels: Kernels, key: Sequence[str], cases: Sequence[Case]) -> list[float]:
    """The row with this key; else one of the element type; else the first."""
    table, names = TABLES[form.group]
    rows = getattr(kernels, table)
    exact = [row for row in rows if all(getattr(row, name) == value for name, value in zip(names, key, strict=True))]
    alike = [row for row in rows if row.dtype == key[0]]
    row = (exact or alike or list(rows))[0]
    fixed = fixed_share(form, cases)
    return [fixed[name] if name in fixed else float(getattr(row, name)) for name, *_ in form.constants]


def _link_key(case: Case) -> tuple[str, str]:
    return library_of(case), str(int(case["n_gpus"]))


def _link_row(kernels: Kernels, library: str, gpus: int) -> tuple[AllReduceKernel, AllReduceKernel]:
    def nearest(name: str) -> AllReduceKernel:
        mine = [row for row in kernels.all_reduce if row.library == name]
        return min(mine, key=lambda row: abs(row.gpus - gpus))

    known = {row.library for row in kernels.all_reduce}
    return nearest(library if library in known else "nccl"), nearest("nccl")


def five_fold(group: str, cases: Sequence[Case]) -> Any:
    """Seconds of every case by constants fitted without its fifth; NaN where nothing is left to fit."""
    found = np.full(len(cases), np.nan)
    fold = np.random.default_rng(SEED).integers(0, FOLDS, len(cases))
    for out in range(FOLDS):
        kept = [case for case, mine in zip(cases, fold, strict=True) if mine != out]
        for place, time in _without(group, cases, kept, fold == out).items():
            found[place] = time
    return found


def _without(group: str, cases: Sequence[Case], kept: Sequence[Case], out: Any) -> dict[int, float]:
    found: dict[int, float] = {}
    if group == LINKS:
        return _links_without(cases, kept, out)
    form = next(one for one in FORMS if one.group == group)
    rows = rows_of(form, kept)
    for key, some in rows_of(form, cases).items():
        places = [place for place, case in enumerate(cases) if out[place] and any(case is one for one in some)]
        if not places or key not in rows:
            continue
        spec, given = load_gpu(key[0]), rows[key]
        constants = fit(form, given, spec, fixed_share(form, given))
        times = predict(form, [cases[place] for place in places], spec, constants)
        found |= dict(zip(places, times, strict=True))
    return found


def _links_without(cases: Sequence[Case], kept: Sequence[Case], out: Any) -> dict[int, float]:
    found: dict[int, float] = {}
    fitted = {key: (load_gpu(key[0]), fit_group(some, load_gpu(key[0]))) for key, some in by_group(kept).items()}
    for place, case in enumerate(cases):
        key = case["gpu"], int(case["n_gpus"])
        if not out[place] or key not in fitted:
            continue
        spec, rows = fitted[key]
        row = next((one for one in rows if one.library == library_of(case)), rows[0])
        found[place] = float(time_with(row, rows[0], [case], spec)[0])
    return found


def constants_of(group: str, cases: Sequence[Case]) -> int:
    """How many constants the rows of a group hold."""
    if group == LINKS:
        rows = {(case["gpu"], *_link_key(case)) for case in cases}
        return sum(1 if row[1].endswith("-eager") else 3 for row in rows)
    form = next(one for one in FORMS if one.group == group)
    free = len(form.constants) - (1 if form.group == "k_moe" else 0)
    return free * len(rows_of(form, cases))
