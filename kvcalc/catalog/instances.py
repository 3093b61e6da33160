"""Machines of the clouds: `p5.48xlarge` becomes its accelerator, its node and its prices.

One file a cloud in `gpu_specs/instances/`; only a file that has the name in it is parsed.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc.catalog.files.toml import data_dir, read_toml
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.gpu import GpuSpec, Link
from kvcalc.specs.price import Instance, MachinePrice, Pricing
from kvcalc.units import GB, GIB


def find_instance(name: str) -> tuple[str, Instance, int | None] | None:
    """The accelerator's name, the machine, and how many GPUs NVLink joins if more than a machine's; None: unknown.

    Case does not matter, and Azure's `Standard_` may be left out.

    Raises:
        KvcalcError: a machine that holds a part of one accelerator.

    >>> gpu, machine, _ = find_instance("P5.48xlarge")
    >>> gpu, machine.gpus, machine.prices["on-demand"].usd_per_hour
    ('h100-sxm', 8, 55.04)
    """
    wanted = name.strip().lower()
    for path in _files():
        if wanted and f'"{wanted}"' in _text(path):
            table = _table(path)
            for machine, row in table["machines"].items():
                if wanted in (machine.lower(), *(alias.lower() for alias in row.get("aliases", ()))):
                    return _found(machine, row, table["list"])
    return None


def all_instances() -> Iterator[tuple[str, Instance]]:
    """Every machine of whole accelerators, by cloud, with its accelerator's name."""
    for path in _files():
        table = _table(path)
        for name, row in table["machines"].items():
            if "of_a_gpu" not in row:
                gpu, machine, _ = _found(name, row, table["list"])
                yield gpu, machine


def in_machine(gpu: GpuSpec, machine: Instance, joined: int | None = None) -> GpuSpec:
    """The accelerator as it stands in a machine: its node, its share of the network."""
    links = gpu.links
    if machine.network_bandwidth_bytes_per_s is not None:
        share = machine.network_bandwidth_bytes_per_s / machine.gpus
        note = f"the share of one of the {machine.gpus} GPUs of {machine.name}"
        links = (*(one for one in links if one.name != "network"), Link(
            name="network", bandwidth_bytes_per_s=share, note=note
        ))  # fmt: skip
    node = joined or machine.gpus
    where = " ".join(part for part in (machine.seller, machine.region) if part)
    why = f"{machine.gpus} × {gpu.name} of {where}" + (f", NVLink joins {joined}" if joined else "")
    said = Assumption(name="machine", value=machine.name, why=why)
    return replace(gpu, instance=machine, gpus_per_node=node, links=links, assumptions=(*gpu.assumptions, said))


def _found(name: str, row: dict[str, Any], sold: dict[str, Any]) -> tuple[str, Instance, int | None]:
    if "of_a_gpu" in row:
        raise KvcalcError(
            f"{name} holds {row['of_a_gpu']} of one {row['gpu']}",
            hint=f"engines need whole GPUs; start an own spec with `kvcalc gpus --export {row['gpu']}`",
        )
    network = row.get("network_gbit_per_s")
    memory = row.get("host_memory_gib")
    machine = Instance(
        name=name,
        seller=sold["seller"],
        region=row.get("region", sold.get("region")),
        gpus=row["gpus"],
        network_bandwidth_bytes_per_s=None if network is None else network * GB / 8,
        host_memory_bytes=None if memory is None else round(memory * GIB),
        prices=_prices(row, sold),
        note=row.get("note"),
    )
    return row["gpu"], machine, row.get("gpus_per_node")


def _prices(row: dict[str, Any], sold: dict[str, Any]) -> dict[Pricing, MachinePrice]:
    """By how the machine is paid. A kind without a place of its own was read in the cloud's list."""
    offers: dict[Pricing, dict[str, Any]] = {}
    if "usd_per_hour" in row:
        offers["on-demand"] = {key: row[key] for key in ("usd_per_hour", "date", "confidence") if key in row}
    if "spot" in row:
        offers["spot"] = row["spot"]
    if "reserved" in row:
        offers["reserved"] = row["reserved"]
    return {
        kind: MachinePrice(
            usd_per_hour=offer["usd_per_hour"],
            date=offer.get("date", sold["date"]),
            source=offer.get("what", sold["what"]),
            url=None if "what" in offer else sold["url"],
            confidence=offer.get("confidence", sold["confidence"]),
        )
        for kind, offer in offers.items()
    }


@cache
def _files() -> tuple[Path, ...]:
    return tuple(sorted((data_dir("gpu_specs") / "instances").glob("*.toml")))


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").lower()


@cache
def _table(path: Path) -> dict[str, Any]:
    return read_toml(path, "cloud machines")
