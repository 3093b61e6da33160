"""`kvcalc gpus`: the accelerators that kvcalc knows, and where each number of one of them came from."""

from collections.abc import Iterator
from datetime import date

from kvcalc.answers.explain import explain
from kvcalc.catalog.gpus import aliases_of, all_gpus, load_gpu, other_boards, spec_text
from kvcalc.catalog.prices import price_age_days, price_of, price_sources, price_warning
from kvcalc.errors import KvcalcError
from kvcalc.formulas.matmul import ridge_point
from kvcalc.results.base import Figure
from kvcalc.results.gpus import GpuNumber, GpuReport, GpuResult, GpuRow, GpusReport, GpusResult
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.price import Instance

# Fields that are one number, with the unit that the name leaves out.
UNITS = {
    "memory_bytes": "bytes",
    "usable_memory_bytes": "bytes",
    "memory_bandwidth_bytes_per_s": "bytes/s",
    "gpus_per_node": "GPUs",
    "l2_bytes": "bytes",
    "sm_count": "processors",
    "launch_year": "year",
    "tdp_w": "W",
}


SEGMENTS = ("data-center", "workstation", "desktop", "laptop", "shared-memory")


def list_gpus(today: date | None = None, match: str = "") -> GpusReport:
    """The accelerators of the catalog in one line each, by vendor and segment.

    Args:
        match: words that must all stand in an accelerator's name, title, vendor, architecture or segment.

    Raises:
        KvcalcError: no accelerator has all the words.
    """
    every = all_gpus()
    gpus = sorted((gpu for gpu in every if _matches(gpu, match)), key=_place)
    if not gpus:
        raise KvcalcError(
            f"--match: no accelerator has {match!r} in its name or description",
            hint=f"fewer words, or a segment: {', '.join(SEGMENTS)}",
        )
    newest = max((price for gpu in gpus if (price := price_of(gpu))), key=lambda price: price.date, default=None)
    warning = None if newest is None else price_warning(newest, today)
    return GpusReport(
        inputs={"match": match} if match else {},
        result=GpusResult(gpus=tuple(map(_row, gpus)), left_out=len(every) - len(gpus)),
        warnings=() if warning is None else (warning,),
    )


def export_gpu(name: str) -> str:
    """A spec of the catalog, or of the user's, as the text of its TOML file.

    Raises:
        KvcalcError: unknown or ambiguous name.
    """
    return spec_text(name)


def _matches(gpu: GpuSpec, match: str) -> bool:
    text = f"{gpu.name} {gpu.title} {gpu.vendor} {gpu.architecture} {gpu.segment}".lower()
    return all(word in text for word in match.lower().split())


def _place(gpu: GpuSpec) -> tuple[str, int, str]:
    return gpu.vendor, SEGMENTS.index(gpu.segment) if gpu.segment else len(SEGMENTS), gpu.name


def show_gpu(name: str, today: date | None = None) -> GpuReport:
    """One accelerator: all numbers with their sources, the notes on conflicts, the price and its age.

    Raises:
        KvcalcError: unknown or ambiguous name, or a file that is not a GPU spec.
    """
    gpu = load_gpu(name)
    price = price_of(gpu)
    ridges = {figure.name.rpartition(" ")[2]: figure for figure in _ridges(gpu)}
    result = GpuResult(
        **vars(gpu) | {"price": price, "aliases": aliases_of(gpu)},
        numbers=tuple(_numbers(gpu)),
        other_boards=tuple(map(_row, other_boards(name))),
        ridge_flop_per_byte={dtype: float(figure.value or 0) for dtype, figure in ridges.items()},
        price_age_days=None if price is None else price_age_days(price, today),
        machine_price_age_days={} if gpu.instance is None else _ages(gpu.instance, today),
    )
    warning = None if price is None else price_warning(price, today)
    return GpuReport(
        inputs={"gpu": gpu.name},
        result=result,
        figures=tuple(ridges.values()),
        assumptions=gpu.assumptions,
        sources=(*gpu.sources.values(), *price_sources(gpu).values()),
        warnings=() if warning is None else (warning,),
    )


def _ages(machine: Instance, today: date | None) -> dict[str, int]:
    return {kind: price_age_days(offer, today) for kind, offer in machine.prices.items()}


def _row(gpu: GpuSpec) -> GpuRow:
    dtype = next(name for name in ("bf16", "fp16", *gpu.peak_flops) if name in gpu.peak_flops)
    price = price_of(gpu)
    return GpuRow(
        name=gpu.name,
        title=gpu.title,
        vendor=gpu.vendor,
        segment=gpu.segment,
        memory_bytes=gpu.memory_bytes,
        usable_memory_bytes=gpu.usable_memory_bytes,
        memory_bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s,
        peak_dtype=dtype,
        peak_flops=gpu.peak_flops[dtype],
        ridge_flop_per_byte=ridge_point(gpu.peak_flops[dtype], gpu.memory_bandwidth_bytes_per_s),
        price_usd_per_hour=None if price is None else price.median_usd_per_hour,
        price_date=None if price is None else price.date,
    )


def _ridges(gpu: GpuSpec) -> Iterator[Figure]:
    for dtype, peak in gpu.peak_flops.items():
        bandwidth = gpu.memory_bandwidth_bytes_per_s
        yield explain(ridge_point, f"ridge {dtype}", peak_flops=peak, bandwidth_bytes_per_s=bandwidth)


def _numbers(gpu: GpuSpec) -> Iterator[GpuNumber]:
    for field, unit in UNITS.items():
        value = getattr(gpu, field)
        if value is not None:
            yield GpuNumber(name=field, value=value, unit=unit, source=gpu.source_of(field))
    for setting in gpu.memory_settings:
        name, value = f"memory_settings.{setting.system}", setting.usable_memory_bytes
        yield GpuNumber(name=name, value=value, unit="bytes", source=gpu.source_of(name))
    for dtype, peak in gpu.peak_flops.items():
        name = f"peak_flops.{dtype}"
        yield GpuNumber(name=name, value=peak, unit="FLOP/s", source=gpu.source_of(name))
    for link in gpu.links:
        name = f"links.{link.name}"
        value = link.bandwidth_bytes_per_s
        yield GpuNumber(name=name, value=value, unit="bytes/s, one direction", source=gpu.source_of(name))
