"""What `kvcalc gpus` shows."""

from typing import Any

from kvcalc.render.page import Block, Facts, Page, Table, Text, assumed
from kvcalc.results.data import data_of
from kvcalc.results.gpus import (
    GpuNumber,
    GpuReport,
    GpuRow,
    GpusReport,
    Instance,
    MachinePrice,
    MachineRow,
    MachinesReport,
)
from kvcalc.units import format_bytes, format_decimal_bytes, format_gigabytes, format_tera, format_things

COLUMNS = ("name", "memory", "bandwidth", "peak, dense", "ridge", "$/h")


def list_page(report: GpusReport) -> Page:
    """The accelerators in a line each, a table for every vendor and segment."""
    gpus = report.result.gpus
    groups: dict[str, list[GpuRow]] = {}
    for gpu in gpus:
        groups.setdefault(" · ".join(part for part in (gpu.vendor, gpu.segment) if part), []).append(gpu)
    tables = (Table(title=title, columns=COLUMNS, rows=tuple(map(_row, rows))) for title, rows in groups.items())
    left_out = report.result.left_out
    return Page(
        title=f"{format_things(len(gpus), 'accelerator')}" + (f" of {len(gpus) + left_out}" if left_out else ""),
        blocks=(
            *tables,
            Text(
                lines=(
                    "The ridge is FLOP per byte: below it a kernel is memory-bound. $/h is the median list price.",
                    "`kvcalc gpus GPU` shows every number of one, with its source; --match WORDS a part of the list.",
                )
            ),
        ),
    )


def _row(gpu: GpuRow) -> tuple[str, ...]:
    return (
        gpu.name,
        format_gigabytes(gpu.memory_bytes),
        format_gigabytes(gpu.memory_bandwidth_bytes_per_s) + "/s",
        f"{format_tera(gpu.peak_flops, digits=0)} {gpu.peak_dtype}",
        f"{gpu.ridge_flop_per_byte:.0f}",
        "–" if gpu.price_usd_per_hour is None else f"{gpu.price_usd_per_hour:.2f}",
    )


def list_rows(report: GpusReport) -> list[dict[str, Any]]:
    """For CSV: one line an accelerator."""
    return [data_of(gpu) for gpu in report.result.gpus]


def one_page(report: GpuReport) -> Page:
    """One accelerator: its numbers, each with its source."""
    gpu = report.result
    ridges = ", ".join(f"{dtype} {ridge:.0f}" for dtype, ridge in gpu.ridge_flop_per_byte.items())
    sources = list(dict.fromkeys(_source(one) for one in gpu.numbers))
    blocks: list[Block] = [
        Table(
            columns=("number", "value", "source"),
            left=frozenset({0, 2}),
            rows=tuple((one.name, _value(one), f"[{sources.index(_source(one)) + 1}]") for one in gpu.numbers),
        ),
        Text(title="Sources", lines=tuple(f"[{i}] {source}" for i, source in enumerate(sources, start=1))),
        Text(title="Ridge points, FLOP/byte", lines=(ridges,)),
    ]
    if gpu.instance is not None:
        blocks.append(_machine(gpu.instance, gpu.machine_price_age_days))
    if gpu.price is not None:
        price = gpu.price
        span = f"{price.low_usd_per_hour:.2f} to {price.high_usd_per_hour:.2f}, median {price.median_usd_per_hour:.2f}"
        blocks.append(Text(title="List price, USD per GPU-hour", lines=(f"{span}; {price.source}, {price.date}",)))
    if gpu.other_boards:
        rows = tuple(_row(board) for board in gpu.other_boards)
        blocks.append(Table(title="The name may also mean", columns=COLUMNS, rows=rows))
    if gpu.notes:
        blocks.append(Text(title="Notes", lines=gpu.notes))
    if gpu.aliases:
        blocks.append(Text(title="Also known as", lines=(", ".join(gpu.aliases),)))
    return Page(title=f"{gpu.title} ({gpu.name})", blocks=tuple(blocks), notes=assumed(report))


def _machine(machine: Instance, ages: dict[str, int]) -> Facts:
    """A cloud's machine and what it costs, by how it is paid."""
    rows = [
        ("GPUs", str(machine.gpus), machine.note or ""),
        *((kind, f"{one.usd_per_hour:,.2f} USD/h", _offer(one, ages[kind])) for kind, one in machine.prices.items()),
    ]
    if machine.network_bandwidth_bytes_per_s is not None:
        network = f"{format_decimal_bytes(machine.network_bandwidth_bytes_per_s)}/s"
        rows.append(("network", network, "all its adapters together"))
    if machine.host_memory_bytes is not None:
        rows.append(("host memory", format_bytes(machine.host_memory_bytes), ""))
    where = " ".join(part for part in (machine.seller, machine.region) if part)
    return Facts(title=f"{machine.name}, {where}", rows=tuple(rows))


def _offer(price: MachinePrice, age_days: int) -> str:
    sure = "" if price.confidence == "high" else f", {price.confidence} confidence"
    return f"{price.date}, {age_days} days ago{sure}; {price.source}"


def machines_page(report: MachinesReport) -> Page:
    """The clouds' machines in a line each, a table for every seller."""
    machines, left_out = report.result.machines, report.result.left_out
    sellers: dict[str, list[MachineRow]] = {}
    for machine in machines:
        sellers.setdefault(machine.seller, []).append(machine)
    return Page(
        title=f"{format_things(len(machines), 'machine')}" + (f" of {len(machines) + left_out}" if left_out else ""),
        blocks=(
            *(
                Table(
                    title=f"{seller}, USD per hour",
                    columns=("name", "GPUs", "on demand", "spot", "reserved", "dated"),
                    rows=tuple(_priced(row) for row in rows),
                    spare=(5, 4),
                )
                for seller, rows in sellers.items()
            ),
            Text(lines=("`--gpu NAME` takes one in every command; `kvcalc gpus NAME` shows its sources.",)),
        ),
    )


def _priced(row: MachineRow) -> tuple[str, ...]:
    prices = (row.on_demand_usd_per_hour, row.spot_usd_per_hour, row.reserved_usd_per_hour)
    shown = ("–" if usd is None else f"{usd:,.2f}" for usd in prices)
    return (row.name, f"{row.gpus} × {row.gpu}", *shown, row.price_date or "–")


def machines_rows(report: MachinesReport) -> list[dict[str, Any]]:
    """For CSV: one line a machine."""
    return [data_of(row) for row in report.result.machines]


def _value(number: GpuNumber) -> str:
    if number.name.startswith(("usable_memory_bytes", "memory_settings.")):
        return format_bytes(number.value)
    if number.unit.startswith("bytes/s"):
        return format_decimal_bytes(number.value, 2) + "/s"
    if number.unit == "bytes":
        return format_bytes(number.value) if number.name == "l2_bytes" else format_decimal_bytes(number.value)
    if number.unit == "FLOP/s":
        return format_tera(number.value)
    if number.unit == "GPUs":
        return format_things(int(number.value), "GPU")
    return f"{number.value:g} {number.unit}" if number.unit not in ("year",) else f"{number.value:g}"


def _source(number: GpuNumber) -> str:
    if number.source is None:
        return "–"
    source = number.source
    sure = "" if source.confidence == "high" else f" ({source.confidence} confidence)"
    return " · ".join(part for part in (source.what + sure, source.url, source.date, source.note) if part)


def one_rows(report: GpuReport) -> list[dict[str, Any]]:
    """For CSV: one line a number."""
    return [data_of(one) for one in report.result.numbers]
