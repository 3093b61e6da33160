"""What contradicts itself in a user's GPU spec: each field may be well, and the card still be none."""

import re
from collections.abc import Iterator

from kvcalc import clock
from kvcalc.specs.dates import first_day
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import GB, GIB

_NAME = re.compile(r"[\w.+-]{1,100}\Z")
LEAST_RATE = 1e9  # bytes/s and FLOP/s: what is below was written in GB/s or TFLOP/s
LEAST_MEMORY = 10**8  # bytes: what is below was written in GB or MiB
NAMEPLATE = 1.01 * GIB / GB  # makers call 80 GiB "80 GB"


def faults(gpu: GpuSpec) -> Iterator[str]:
    """What is wrong, with the field in front.

    >>> from kvcalc.catalog.gpus import load_gpu
    >>> from kvcalc.specs.base import replace
    >>> list(faults(replace(load_gpu("l4"), memory_bandwidth_bytes_per_s=300.0)))
    ['memory_bandwidth_bytes_per_s: 300 bytes/s is none of a GPU; 300 GB/s are 300e9']
    """
    if not _NAME.match(gpu.name):
        yield f"name: {gpu.name[:40]!r} is no name: letters, digits, dots and hyphens, 100 at most"
    if gpu.memory_bytes < LEAST_MEMORY:
        yield f"memory_bytes: {gpu.memory_bytes:,} bytes is no GPU's memory; 80 GB are 80_000_000_000"
    if gpu.usable_memory_bytes > NAMEPLATE * gpu.memory_bytes:
        yield f"usable_memory_bytes: {gpu.usable_memory_bytes:,} is above memory_bytes, {gpu.memory_bytes:,}"
    if (rate := gpu.memory_bandwidth_bytes_per_s) < LEAST_RATE:
        yield f"memory_bandwidth_bytes_per_s: {rate:g} bytes/s is none of a GPU; 300 GB/s are 300e9"
    for dtype, peak in gpu.peak_flops.items():
        if peak < LEAST_RATE:
            yield f"peak_flops.{dtype}: {peak:g} FLOP/s is none of a GPU; 989 TFLOP/s are 989e12"
    yield from _price(gpu)
    for field, source in gpu.sources.items():
        yield from _date(f"sources.{field}.date", source.date)


def _price(gpu: GpuSpec) -> Iterator[str]:
    price = gpu.price
    if price is None:
        return
    if not price.low_usd_per_hour <= price.median_usd_per_hour <= price.high_usd_per_hour:
        yield "price: low, median and high are not in this order"
    yield from _date("price.date", price.date)


def _date(field: str, text: str | None) -> Iterator[str]:
    if text is None:
        return
    try:
        day = first_day(text)
    except ValueError as error:
        yield f"{field}: {text[:40]!r}: {error}"
        return
    if day > clock.today():
        yield f"{field}: {text} is in the future"
