"""llama.cpp's kernels for a device, a backend and a build: the row of `gpu_specs/llamacpp/` that holds."""

import re
from functools import cache
from typing import Any

from kvcalc.catalog.files.toml import data_dir, read_toml
from kvcalc.catalog.names import did_you_mean
from kvcalc.errors import KvcalcError
from kvcalc.specs.build import build
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.ggml import Backend, GgmlKernels, LocalSetting, Parts, Skips
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import parse_bandwidth

FOLDER = "llamacpp"
NATIVE: dict[str, Backend] = {"NVIDIA": "cuda", "AMD": "hip", "Apple": "metal", "Intel": "sycl"}
EVERYWHERE: Backend = "vulkan"
FLASH_BY_DEFAULT = "2025-09"  # -fa auto, b6325 (ggml-org/llama.cpp pull request 15434)
NEWEST = "9999-12"
FIRST = "2023-03"  # when llama.cpp began
_BUILD = re.compile(r"b?(\d{1,6})\Z", re.IGNORECASE)
_DATE = re.compile(r"(20\d\d)(?:-(0[1-9]|1[0-2]))?(?:-\d\d)?\Z")
MIDDLE = "07"  # of a year that is given without a month


def local_setting(gpu: GpuSpec, deployment: Deployment) -> LocalSetting:
    """Backend, build and attention of a deployment: as asked, else the vendor's own backend and the newest build.

    Raises:
        KvcalcError: the backend does not run on this device, or the build cannot be read.
    """
    own = NATIVE.get(gpu.vendor)
    if own is None:
        raise KvcalcError(f"llama.cpp does not run on {gpu.title}", hint=f"its vendors are {', '.join(NATIVE)}")
    backend = deployment.backend or own
    runs = {own} if own == "metal" else {own, EVERYWHERE}
    if backend not in runs:
        raise KvcalcError(
            f"--backend {backend} does not run on {gpu.title}", hint=f"use --backend {' or '.join(sorted(runs))}"
        )
    month = month_of(deployment.engine_version)
    asked = deployment.flash_attn
    flash = month >= FLASH_BY_DEFAULT if asked == "auto" else asked == "on"
    skips = _skips(backend)
    return LocalSetting(
        backend=backend,
        month=month,
        flash_attention=flash,
        skips=skips if flash and skips and month >= skips.since else None,
    )


def host_names() -> tuple[str, ...]:
    """The hosts whose memory's bandwidth is known, by name."""
    return tuple(_table("hosts")["bandwidth_bytes_per_s"])


def host_bandwidth(text: str | None) -> float:
    """Bytes/s of a host's memory: a number with its unit, or a common host's name; the usual desktop's if not given.

    Raises:
        KvcalcError: neither a size nor a host that is known.

    >>> host_bandwidth("ddr5-6000"), host_bandwidth("200GB/s")
    (96000000000.0, 200000000000.0)
    """
    table = _table("hosts")
    known: dict[str, float] = table["bandwidth_bytes_per_s"]
    name = (text or str(table["default"])).strip().lower()
    if name in known:
        return known[name]
    if name[:1].isdigit():
        return parse_bandwidth(name.upper().replace("/S", "/s").replace("IB", "iB"), "--host-memory-bandwidth")
    raise KvcalcError(
        f"unknown host {name[:40]!r}",
        hint=did_you_mean(name, known, f"give a bandwidth (96GB/s) or one of {', '.join(sorted(known))}"),
    )


def month_of(version: str | None) -> str:
    """The month of a build: `b5000`, a month (`2025-03`) or a year, whose middle is taken; the newest if not given.

    Raises:
        KvcalcError: it is none of these.

    >>> month_of("b5163"), month_of("2024"), month_of(None) > "2030"
    ('2025-04', '2024-07', True)
    """
    if version is None:
        return NEWEST
    text = version.strip()
    if date := _DATE.match(text):
        month = f"{date[1]}-{date[2] or MIDDLE}"
        if month < FIRST:
            raise KvcalcError(f"llama.cpp has no build of {text}: it began in {FIRST}", hint="write b5000 or 2025-03")
        return month
    if build := _BUILD.match(text):
        number = int(build[1])
        months = [month for month, first in _table("builds")["first"].items() if first <= number]
        return str(max(months, default=min(_table("builds")["first"])))
    raise KvcalcError(
        f"llama.cpp build {version[:40]!r} is neither a build nor a date", hint="write b5000, 2025-03 or 2025"
    )


def ggml_kernels(gpu: GpuSpec, setting: LocalSetting) -> GgmlKernels:
    """The constants that hold: of this backend's rows for such a device, the newest that the build has.

    A build older than all of them takes the oldest.
    """
    fitting = [row for row in rows() if row.backend == setting.backend and _holds(row, gpu)]
    reached = [row for row in fitting if row.since <= setting.month]
    if not reached:
        first = min(row.since for row in fitting)
        reached = [row for row in fitting if row.since == first]
    return max(reached, key=lambda row: (row.since, _conditions(row)))


@cache
def local_parts() -> Parts:
    """What a model costs on several devices, or partly on the host."""
    return build(Parts, _table("parts"))


@cache
def _skips(backend: Backend) -> Skips | None:
    found = _table("masks").get(backend)
    return None if found is None else build(Skips, found)


def _holds(row: GgmlKernels, gpu: GpuSpec) -> bool:
    return (
        row.vendor in (None, gpu.vendor)
        and (not row.compute_capability or gpu.compute_capability in row.compute_capability)
        and row.unified_memory in (None, gpu.unified_memory)
    )


def _conditions(row: GgmlKernels) -> int:
    """How much a row asks of a device: the narrower class goes first."""
    return (row.vendor is not None) + 2 * bool(row.compute_capability) + (row.unified_memory is not None)


@cache
def rows() -> tuple[GgmlKernels, ...]:
    """Every row of the data file."""
    return tuple(build(GgmlKernels, one) for one in _table("kernels")["kernels"])


@cache
def _table(name: str) -> dict[str, Any]:
    return read_toml(data_dir("gpu_specs") / FOLDER / f"{name}.toml", f"llama.cpp's {name}")


def forget_rows() -> None:
    """Read the data file anew: it was written since."""
    rows.cache_clear()
    local_parts.cache_clear()
    _table.cache_clear()
