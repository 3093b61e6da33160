"""Which image of an engine runs on a GPU, and how a container is given GPUs: `hardware.toml`."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kvcalc.catalog.kernels import local_setting
from kvcalc.catalog.serve.table import command_line
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.versions import parse_version, since

_ELSEWHERE = "name the engine with --emit for its command, and start it without a container"


class Hardware(NamedTuple):
    """An engine's image for some GPUs, and how a container names them."""

    image: str
    resource: str  # of Kubernetes
    paths: tuple[str, ...] = ()  # devices of the machine; none: compose's own way for NVIDIA
    groups: tuple[str, ...] = ()
    security: tuple[str, ...] = ()
    visible: str | None = None  # the variable that says which GPUs a program sees


def hardware(deployment: Deployment, gpu: GpuSpec) -> Hardware:
    """The image and the devices of a deployment.

    Args:
        deployment: whose engine and version it is; None is the newest.
        gpu: that it runs on.

    Raises:
        KvcalcError: the engine has no image for this GPU or this version, or no container reaches the GPU.

    >>> from kvcalc.catalog.gpus import load_gpu
    >>> hardware(Deployment(engine_version="0.17.0"), load_gpu("mi300x")).image
    'vllm/vllm-openai-rocm:v0.17.0'
    """
    image, device = _image(deployment, gpu), _first("device", gpu)
    engine = command_line(deployment.engine).engine
    if image is None or device is None:
        raise KvcalcError(
            f"{engine} has no container image for {gpu.title} ({gpu.vendor} {gpu.architecture})", hint=_ELSEWHERE
        )
    return Hardware(
        image=f"{image['name']}:{_tag(image, deployment.engine_version, engine)}",
        resource=device["resource"],
        paths=tuple(device.get("paths", ())),
        groups=tuple(device.get("groups", ())),
        security=tuple(device.get("security", ())),
        visible=image.get("visible", device.get("visible")) if device.get("paths") else None,
    )


def _image(deployment: Deployment, gpu: GpuSpec) -> Mapping[str, Any] | None:
    """llama.cpp's by its backend, the others' by the vendor."""
    rows = [row for row in _rows("image") if row["engine"] == deployment.engine]
    backend = local_setting(gpu, deployment).backend if any("backend" in row for row in rows) else None
    return next((row for row in rows if row.get("backend") == backend and _for(row, gpu)), None)


def _first(kind: str, gpu: GpuSpec) -> Mapping[str, Any] | None:
    return next((row for row in _rows(kind) if _for(row, gpu)), None)


def _for(row: Mapping[str, Any], gpu: GpuSpec) -> bool:
    of_vendor = row.get("vendor") in (None, gpu.vendor)
    return of_vendor and gpu.architecture in row.get("architectures", (gpu.architecture,))


def _tag(image: Mapping[str, Any], version: str | None, engine: str) -> str:
    if version is None:
        return str(image["newest"])
    first = image.get("since")
    if first is not None and not since(parse_version(version), first):
        raise KvcalcError(
            f"{engine} {version} has no image {image['name']}: the first is {first}",
            hint="give a newer --engine-version",
        )
    return str(image["tag"].format(re.sub(r"^[bBvV]", "", version)))


@cache
def _rows(kind: str) -> tuple[Mapping[str, Any], ...]:
    with open(Path(__file__).with_name("hardware.toml"), "rb") as file:
        return tuple(tomllib.load(file)[kind])
