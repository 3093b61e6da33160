"""No dead data: every range, profile key and kernel row is read by something that a command asks."""

import tomllib
from dataclasses import fields, is_dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

import kvcalc
from kvcalc.catalog.files.toml import data_dir
from kvcalc.catalog.gpus import all_gpus
from kvcalc.specs.base import field_names
from kvcalc.specs.deployment import Engine
from kvcalc.specs.ggml import Backend, GgmlKernels
from kvcalc.specs.kernels import Kernels
from kvcalc.timing.engine_profiles import FILE as ENGINES
from kvcalc.timing.engine_profiles import Profile, profiles
from kvcalc.timing.machine import with_profile
from kvcalc.timing.ranges import Timed, kinds, spreads

PACKAGE = Path(kvcalc.__file__).parent
EVIDENCE = {"name", "engine", "since", "vendor", "points", "cells", "error", "note", "by_hand"}
# Engines of benchmarks: what they measured is in the fits, and no command serves with them.
BENCHMARKS_ONLY = {"gpt-fast", "mlperf", "any"}
OF_BENCHMARKS = {"arrival_wait"}  # of MLPerf's scenarios


def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")))


def test_every_range_is_of_something_that_a_command_times() -> None:
    reached: set[str] = set()
    served = [one for one in profiles() if one.engine in get_args(Engine)]
    each = product(all_gpus(), served, (True, False), get_args(Timed), ("measured", "eager"))
    for gpu, profile, routed, timed, best in each:
        if profile.vendor in ("", gpu.vendor):
            known = kinds(with_profile(gpu, profile), routed, timed, best)
            reached.add(next((kind for kind in known if kind in spreads()), known[-1]))
    local = set()
    for where, model, what in product((*get_args(Backend), "offload"), ("dense", "moe"), ("decode", "prompts")):
        names = (f"llamacpp-{where}-{model}-{what}", f"llamacpp-{where}-{what}")
        local.add(next(name for name in names if name in spreads()))
    assert set(spreads()) == {kind for kind in reached if not kind.startswith("llamacpp")} | local


def test_every_key_of_a_profile_is_read() -> None:
    text = sources()
    unread = [name for name in Profile._fields if name not in EVIDENCE | OF_BENCHMARKS and f".{name}" not in text]
    assert not unread


def test_every_profile_is_of_an_engine() -> None:
    engines = {table["engine"] for table in tomllib.loads(ENGINES.read_text(encoding="utf-8"))["profile"]}
    assert engines - BENCHMARKS_ONLY <= set(get_args(Engine))


def test_every_key_of_a_kernel_row_is_read() -> None:
    text = sources()
    named = {name for kind in _row_kinds() for name in field_names(kind)} | set(field_names(Kernels))
    # Evidence, and what a multiplication alone has beyond one in a step (docs/reference/time-constants.md).
    told = {"points", "error", "note", "evidence", "date", "kernel", "input_s"}
    unread = [name for name in sorted(named - told) if f".{name}" not in text and f'"{name}"' not in text]
    assert not unread


def test_every_key_of_llama_cpps_kernels_is_read() -> None:
    text = sources()
    told = {"points", "error", "note"}
    unread = [name for name in field_names(GgmlKernels) if name not in told and f".{name}" not in text]
    assert not unread


def _row_kinds() -> list[Any]:
    from kvcalc.specs import kernels

    return [one for one in vars(kernels).values() if isinstance(one, type) and is_dataclass(one) and fields(one)]


@pytest.mark.parametrize("path", sorted((data_dir("gpu_specs") / "kernels").glob("*.toml")), ids=lambda path: path.stem)
def test_every_kernel_file_is_of_a_gpu_or_a_class(path: Path) -> None:
    classes = tomllib.loads((path.parent / "classes.toml").read_text(encoding="utf-8"))["class"]
    known = {gpu.name for gpu in all_gpus()} | {one["like"] for one in classes} | {"classes", "generic"}
    assert path.stem in known
