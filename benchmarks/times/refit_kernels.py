"""Kernel files from kernel cases: one TOML a GPU, one of medians for GPUs without measurements."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tomli_w
from times.fit_kernels import FORMS, Form, fit, fixed_share, predict, rows_of
from times.fit_links import by_group, fit_group
from times.kernel_cases import Case, seconds

from kvcalc.catalog.gpus import load_gpu
from kvcalc.cli.files import write_file
from kvcalc.results.data import said_of

# TOML table and the names of a row's key, by case group.
TABLES = {
    "k_gemm": ("gemm", ("dtype",)),
    "k_attn_decode": ("attention", ("dtype", "library")),
    "k_mla_decode": ("latent_attention", ("dtype",)),
    "k_attn_prefill": ("prefill_attention", ("dtype",)),
    "k_moe": ("experts", ("dtype", "kernel")),
}
SHARED = ("flops_share",)  # constants that are not written for experts: one value holds for all GPUs
LAUNCH_S = 40e-6  # a multiplication that takes longer than this with nothing to do was not in a graph
SLOW_SHARE = 0.3  # an expert or latent kernel below this share of the bandwidth is left out of the medians
NOTHING = 1e-12
UNFUSED, BLACKWELL = ("fp8",), ("10.0", "10.3")  # the file of per-tensor fp8 holds unfused quantization there
NOT_GENERIC = ("fp8-block",)  # measured on Blackwell alone

# Not fitted: NCCL's profiles of PCIe cards at 4 and 8 GPUs contradict what static batches on the same cards imply.
PCIE = (
    {"library": "pcie", "gpus": 2, "latency_s": 4e-6, "link_share": 0.65, "sqrt_s": 2e-5},
    {"library": "pcie", "gpus": 4, "latency_s": 12e-6, "link_share": 0.5, "sqrt_s": 1e-5},
    {"library": "pcie", "gpus": 8, "latency_s": 25e-6, "link_share": 0.5, "sqrt_s": 1e-5},
)

# Not fitted: without peer access every message goes through the host's memory, two crossings and a copy.
PCIE_HOST = (
    {"library": "pcie-host", "gpus": 2, "latency_s": 1.6e-5, "link_share": 0.35, "sqrt_s": 2e-5,
     "note": "by hand: pairs of RTX 5090 and 3090 lost 13 and 15 µs each time without peer access"},
    {"library": "pcie-host", "gpus": 4, "latency_s": 2.8e-5, "link_share": 0.3, "sqrt_s": 2e-5,
     "note": "by judgement, between two and eight"},
    {"library": "pcie-host", "gpus": 8, "latency_s": 4.2e-5, "link_share": 0.25, "sqrt_s": 2e-5,
     "note": "by hand: 42 µs at 8 bytes on eight RTX 4090 (NVIDIA/nccl issue 1530)"},
)  # fmt: skip
# Not fitted: no case measures int4 experts; end to end Kimi's run on Blackwell like mxfp4's on H200.
SET_EXPERTS = (
    {"dtype": "int4", "kernel": "w4a16", "latency_s": 45e-6, "bandwidth_share": 0.57, "note": "as mxfp4 on H200"},
)

Table = dict[str, list[dict[str, Any]]]


def fit_all(cases: Mapping[str, Sequence[Case]]) -> dict[str, Table]:
    """Rows of every GPU, by TOML table, from cases by group."""
    found: dict[str, Table] = defaultdict(lambda: defaultdict(list))
    for form in FORMS:
        for (gpu, *key), some in sorted(rows_of(form, cases.get(form.group, ())).items()):
            spec = load_gpu(gpu)
            table, names = TABLES[form.group]
            found[spec.name][table].append(dict(zip(names, key, strict=True)) | _row(form, some, gpu))
    for (gpu, _), some in sorted(by_group(cases.get("k_allreduce", ())).items()):
        spec = load_gpu(gpu)
        for row in fit_group(some, spec):
            found[spec.name]["all_reduce"].append(rounded(said_of(row)))
    return {name: dict(tables) for name, tables in found.items()}


def _row(form: Form, cases: Sequence[Case], gpu: str) -> dict[str, Any]:
    spec = load_gpu(gpu)
    constants = fit(form, cases, spec, fixed_share(form, cases))
    error = float(np.median(np.abs(predict(form, cases, spec, constants) / seconds(cases) - 1)))
    named = dict(zip([one[0] for one in form.constants], constants, strict=True))
    if form.group == "k_moe":
        named = {name: value for name, value in named.items() if name not in SHARED}
    row = rounded(named | {"points": len(cases), "error": error})
    if form.group == "k_gemm" and form.key(cases[0]) == UNFUSED and (spec.compute_capability or "") in BLACKWELL:
        row |= {
            "graph": False,
            "note": "times a quantization of the inputs too, which engines fuse into what is before",
        }
    if form.group == "k_gemm" and named["latency_s"] > LAUNCH_S:
        row |= {"graph": False, "note": "launched without a graph: the latency is the launch's"}
    if form.group == "k_moe" and named["bandwidth_share"] < SLOW_SHARE:
        row |= {"chosen": False, "note": "not what engines choose: a fraction of what other kernels reach"}
    return row


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Three significant digits: more would claim what the spread does not allow. A time below a picosecond is none."""
    return {
        key: (float(f"{value:.3g}") if abs(value) > NOTHING else 0.0) if isinstance(value, float) else value
        for key, value in row.items()
    }


def generic(found: Mapping[str, Table]) -> Table:
    """Medians over GPUs, for one that was not measured."""
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    keys = {"gemm": ("dtype",), "attention": ("dtype",), "latent_attention": ("dtype",), "experts": ()}
    keys |= {"prefill_attention": ("dtype",), "all_reduce": ("library", "gpus")}
    for tables in found.values():
        for table, some in tables.items():
            for row in some:
                slow = table in ("experts", "latent_attention") and row["bandwidth_share"] < SLOW_SHARE
                if not slow and row.get("dtype") not in NOT_GENERIC and not row.get("library", "").endswith("-eager"):
                    rows[table, *(str(row[key]) for key in keys[table])].append(row)
    result: Table = {
        "all_reduce": [dict(row) for row in (*PCIE, *PCIE_HOST)],
        "experts": [dict(row) for row in SET_EXPERTS],
    }
    for (table, *key), some in sorted(rows.items()):
        medians = {
            name: median(row[name] for row in some if name in row)
            for name in ("latency_s", "bandwidth_share", "flops_share", "input_s", "token_s", "link_share", "sqrt_s")
            if any(name in row for row in some)
        }
        named: dict[str, Any] = dict(zip(keys[table], key, strict=True))
        if "gpus" in named:
            named["gpus"] = int(named["gpus"])
        if table == "attention":
            named["library"] = "any"
        if table == "experts":
            named |= {"dtype": "any", "kernel": "median"}
        note = {"note": f"median of {len(some)} measured rows"}
        result.setdefault(table, []).append(rounded(named | medians | note))
    return result


def write(path: Path, header: str, table: Mapping[str, Any]) -> None:
    """A TOML file with a comment on top; replaced whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"# {line}\n" for line in header.splitlines()) + tomli_w.dumps(dict(table))
    write_file(path, text.encode())


def sources(cases: Iterable[Case]) -> str:
    """What a fit rests on: engines and versions, and where they were measured."""
    engines, places = set(), set()
    for case in cases:
        engines.add(f"{case['engine']} {case.get('engine_version') or ''}".strip())
        parts = str(case["source_url"]).split("/")  # https: / / host / owner / repository / blob / commit / path
        places.add(f"{parts[3]}/{parts[4]}{f' at {parts[6][:7]}' if len(parts) > 6 else ''}")
    return f"{', '.join(sorted(engines))}; from {', '.join(sorted(places))}"
