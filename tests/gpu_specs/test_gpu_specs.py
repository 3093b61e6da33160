"""The accelerators' numbers: sourced, dense, one direction, and true where a data sheet says so."""

import re

import pytest

from kvcalc.answers.listing.gpus import show_gpu
from kvcalc.catalog.gpus import all_gpus, gpu_names, load_gpu
from kvcalc.specs.base import field_names
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import GB, GIB, MIB

SPECS = all_gpus()
each = pytest.mark.parametrize("gpu", SPECS, ids=lambda gpu: gpu.name)


@each
def test_each_number_has_a_source(gpu: GpuSpec) -> None:
    numbers = show_gpu(gpu.name).result.numbers
    assert len(numbers) >= 8
    for number in numbers:
        source = number.source
        assert source is not None, number.name
        assert source.what
        assert source.confidence in ("high", "medium", "low")
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", source.date or ""), number.name
        assert source.url is None or source.url.startswith("https://")


@each
def test_sources_are_of_fields(gpu: GpuSpec) -> None:
    known = set(field_names(GpuSpec)) | {f"peak_flops.{dtype}" for dtype in gpu.peak_flops}
    assert set(gpu.sources) <= known | {"*"}


@each
def test_a_card_database_is_no_source_for_what_it_does_not_hold(gpu: GpuSpec) -> None:
    if gpu.sources["*"].what.startswith("TechPowerUp"):
        assert {"usable_memory_bytes", "peak_flops", "gpus_per_node"} <= set(gpu.sources)
        assert "links" in gpu.sources or not gpu.links


@each
def test_a_guess_is_not_said_with_confidence(gpu: GpuSpec) -> None:
    for source in gpu.sources.values():
        if source.what.startswith(("derived", "as the ", "half of", "recalled")):
            assert source.confidence != "high" or "half of the MI250X" in source.what, source.what


@each
def test_usable_memory_is_below_the_nameplate_in_gib(gpu: GpuSpec) -> None:
    """Of a shared memory the GPU is given a half (Linux) or more."""
    for usable in (gpu.usable_memory_bytes, *(setting.usable_memory_bytes for setting in gpu.memory_settings)):
        share = usable / (gpu.memory_bytes / GB * GIB)
        assert (0.45 if gpu.unified_memory else 0.9) < share < 1.01


@each
def test_the_machines_that_it_is_made_for_are_said(gpu: GpuSpec) -> None:
    assert gpu.segment is not None
    assert (gpu.segment == "shared-memory") <= gpu.unified_memory


@each
def test_ridge_points_are_sane(gpu: GpuSpec) -> None:
    peak = gpu.peak("bf16") or gpu.peak("fp16") or gpu.peak("fp32")
    assert peak is not None
    most = 1000 if gpu.name == "jetson-thor-t5000" else 600  # a server's arithmetic with a laptop's memory
    assert 15 < peak / gpu.memory_bandwidth_bytes_per_s < most


# Dense 16-bit FLOP a clock of one multiprocessor (compute unit) with fp32 accumulation, from the architecture white
# papers. GeForce cards do half of the professional ones. The clock that follows must be one that chips reach; a sparse
# figure would need twice that.
RATES = {
    "Volta": 1024,
    "Turing": 1024,
    "Ampere": 1024,
    "Ada Lovelace": 1024,
    "Hopper": 4096,
    "Blackwell": 8192,
    "Blackwell Ultra": 8192,
    "CDNA 2": 1024,
    "CDNA 3": 2048,
    "CDNA 4": 4096,
}
OTHER_RATES = {
    "a100": 2048, "a30": 2048, "a800": 2048, "gtx16": 256, "rtx6000d": 1024,
    "jetson-thor": 8192, "jetson": 2048, "rtx-pro": 1024, "gb10": 1024, "l40": 512,
    "l40s": 1024,
}  # fmt: skip
HALF_RATE = {"a10g", "l20"}


def rate_of(gpu: GpuSpec) -> int:
    if gpu.name in HALF_RATE or "GeForce RTX" in gpu.title:
        return 512
    if gpu.name in OTHER_RATES:
        return OTHER_RATES[gpu.name]
    return next((rate for start, rate in OTHER_RATES.items() if gpu.name.startswith(start)), RATES[gpu.architecture])


@pytest.mark.parametrize("gpu", [gpu for gpu in SPECS if gpu.architecture in RATES], ids=lambda gpu: gpu.name)
def test_peaks_are_dense(gpu: GpuSpec) -> None:
    peak = gpu.peak("bf16") or gpu.peak("fp16")
    assert peak is not None
    if gpu.sm_count is None:
        assert gpu.sources["*"].confidence == "low"
        return
    clock = peak / (gpu.sm_count * rate_of(gpu))
    assert (
        (0.4e9 if gpu.name.startswith("h20") and "h200" not in gpu.name else 0.9e9) < clock < 2.7e9
    )  # the H20 is held back by rule, not by its clock


@each
def test_narrower_types_double(gpu: GpuSpec) -> None:
    peaks = gpu.peak_flops
    if "bf16" not in peaks or gpu.name in ("gaudi3", "trainium3"):  # fp8 at 1 and 3.75 times bf16
        return
    for dtype, factors in {"fp8": (1, 2), "int8": (1, 2, 4), "nvfp4": (6,), "fp4": (4, 8), "mxfp4": (4,)}.items():
        cut = dtype == "int8" and gpu.architecture == "Blackwell Ultra"
        if dtype in peaks and not cut:
            assert any(peaks[dtype] / peaks["bf16"] == pytest.approx(factor, rel=0.03) for factor in factors), dtype


# Printed by the vendor: (name, field, value, where). Sparse figures are halved here, in the open.
PRINTED = [
    ("h100-sxm", "bf16", 1979e12 / 2, "H100 product page, sparse"),
    ("h100-sxm", "fp8", 3958e12 / 2, "H100 product page, sparse"),
    ("h200-sxm", "bf16", 1979e12 / 2, "H200 product page, sparse"),
    ("a100-80g-sxm", "bf16", 312e12, "A100 product page"),
    ("a100-80g-sxm", "int8", 624e12, "A100 product page"),
    ("l40s", "bf16", 362.05e12, "L40S data sheet"),
    ("l4", "bf16", 242e12 / 2, "L4 product page, sparse"),
    ("a10g", "bf16", 140e12 / 2, "A10G data sheet for AWS, sparse"),
    ("a10", "bf16", 125e12, "A10 data sheet"),
    ("rtx-a6000", "bf16", 309.7e12 / 2, "RTX A6000 data sheet, sparse"),
    ("rtx4090", "bf16", 165.2e12, "Ada white paper, fp32 accumulation"),
    ("rtx5090", "fp4", 3352e12 / 2, "RTX 5090 page, AI TOPS, sparse"),
    ("b200-sxm", "bf16", 36e15 / 8 / 2, "HGX B200 page, eight, sparse"),
    ("b200-sxm", "fp4", 144e15 / 8 / 2, "HGX B200 page, eight, sparse"),
    ("gb200", "fp4", 40e15 / 2 / 2, "GB200 page, superchip of two, sparse"),
    ("gb10", "fp4", 1e15 / 2, "DGX Spark page, sparse"),
    ("mi300x", "bf16", 1307.4e12, "MI300X page"),
    ("mi300x", "fp8", 2614.9e12, "MI300X page"),
    ("mi355x", "mxfp4", 10.07e15, "MI355X page"),
    ("tpu-v5e", "bf16", 197e12, "Cloud TPU documentation"),
]


@pytest.mark.parametrize("name, dtype, value, where", PRINTED)
def test_printed_peaks(name: str, dtype: str, value: float, where: str) -> None:
    assert load_gpu(name).peak(dtype) == pytest.approx(value, rel=2e-3), where


# Decimal gigabytes a second, as printed; 2^30 would be 7 % off.
BANDWIDTHS = {
    "h100-sxm": 3350e9,
    "h100-pcie": 2000e9,
    "h100-nvl": 3900e9,
    "h200-sxm": 4800e9,
    "a100-40g-sxm": 1555e9,
    "a100-80g-sxm": 2039e9,
    "l40s": 864e9,
    "l4": 300e9,
    "t4": 320e9,
    "rtx4090": 1008e9,
    "mi300x": 5300e9,
    "gb10": 273e9,
    "tpu-v5e": 819e9,
    "rtx4070": 504.2e9,
    "rtx5070ti": 896e9,
    "rx7900xtx": 960e9,
    "rx9070xt": 644.6e9,
    "apple-m1-8c-8g": 68.25e9,
    "apple-m2-ultra-76c-192g": 800e9,
    "apple-m3-max-30c-36g": 300e9,
    "apple-m4-max-40c-128g": 546e9,
    "apple-m5-max-40c-128g": 614e9,
    "ryzen-ai-max-395-128g": 256e9,
}


@pytest.mark.parametrize("name", BANDWIDTHS)
def test_printed_bandwidths(name: str) -> None:
    assert load_gpu(name).memory_bandwidth_bytes_per_s == BANDWIDTHS[name]


# NVLink and Infinity Fabric are printed as both directions together; PCIe 5.0 x16 is 63 GB/s after encoding.
LINKS = [
    ("h100-sxm", "nvlink", 900e9 / 2),
    ("h800-sxm", "nvlink", 400e9 / 2),
    ("a100-80g-sxm", "nvlink", 600e9 / 2),
    ("v100-32g-sxm2", "nvlink", 300e9 / 2),
    ("b200-sxm", "nvlink", 1800e9 / 2),
    ("rtx3090", "nvlink", 112.5e9 / 2),
    ("mi300x", "xgmi", 896e9 / 2),
    ("h100-sxm", "pcie", 32e9 * 16 / 8 * 128 / 130),
    ("a100-80g-pcie", "pcie", 16e9 * 16 / 8 * 128 / 130),
    ("tpu-v5e", "ici", 400e9 / 2),
]


@pytest.mark.parametrize("name, link, one_direction", LINKS)
def test_links_are_one_direction(name: str, link: str, one_direction: float) -> None:
    found = load_gpu(name).link(link)
    assert found is not None
    assert found.bandwidth_bytes_per_s == pytest.approx(one_direction, rel=1e-3)


@each
def test_a_bridge_joins_few(gpu: GpuSpec) -> None:
    nvlink = gpu.link("nvlink")
    if nvlink is not None and gpu.link("pcie") is not None and nvlink.note and "bridge" in nvlink.note:
        assert nvlink.gpus in (2, 4)


# Totals in start-up logs and out-of-memory messages, GiB.
TOTALS = {
    "h100-sxm": 79.19,
    "h100-nvl": 93.1,
    "h200-sxm": 139.81,
    "b200-sxm": 178.35,
    "b300-sxm": 267.69,
    "gb200": 184.31,
    "a100-80g-sxm": 79.25,
    "l40s": 44.40,
    "l4": 22.06,
    "rtx5090": 31.37,
    "mi300x": 191.69,
}


@pytest.mark.parametrize("name", TOTALS)
def test_totals_as_engines_print_them(name: str) -> None:
    assert load_gpu(name).usable_memory_bytes / GIB == pytest.approx(TOTALS[name], abs=0.13)


# What Metal offers of a shared memory, in 10^6 bytes, as llama.cpp prints it on the systems of today and of before.
METAL = [
    ("apple-m3-8c-16g", 12713.12, 11453.25),
    ("apple-m4-10c-24g", 19069.67, 17179.87),
    ("apple-m2-max-30c-32g", 26800.60, 22906.50),
    ("apple-m3-max-30c-36g", 30150.67, 28991.03),
    ("apple-m2-max-38c-64g", 55662.79, 51539.61),
    ("apple-m4-max-40c-128g", 115448.73, 103079.22),
    ("apple-m3-ultra-80c-512g", 498216.21, 412316.86),
]


@pytest.mark.parametrize("name, new, old", METAL)
def test_apples_share_for_the_gpu(name: str, new: float, old: float) -> None:
    gpu = load_gpu(name)
    (setting,) = gpu.memory_settings
    assert setting.by_default
    assert gpu.usable_memory_bytes / 1e6 == pytest.approx(new, abs=0.01)
    assert setting.usable_memory_bytes / 1e6 == pytest.approx(old, abs=0.01)


def test_the_m5_multiplies_with_its_matrix_units() -> None:
    assert load_gpu("m5 max").peak("fp16") == pytest.approx(4 * (load_gpu("m5 max").peak("fp32") or 0), rel=1e-3)
    assert load_gpu("m4 max").peak("fp16") == load_gpu("m4 max").peak("fp32")


def test_traps() -> None:
    # A T4 of 16 GB reports 15,360 MiB, and less than that to programs.
    assert load_gpu("t4").usable_memory_bytes < 15360 * MIB
    # The MI250X is two devices.
    whole, die = load_gpu("mi250x"), load_gpu("mi250x-gcd")
    assert die.memory_bytes * 2 == whole.memory_bytes
    assert die.peak_flops["bf16"] * 2 == whole.peak_flops["bf16"]
    # Blackwell Ultra cut int8 to a thirtieth.
    assert load_gpu("b300-sxm").peak_flops["int8"] < 0.2e15
    # No bf16 before Ampere, no fp8 before Ada, no fp4 before Blackwell.
    assert load_gpu("t4").peak("bf16") is None
    assert load_gpu("a100-80g-sxm").peak("fp8") is None
    assert load_gpu("h100-sxm").peak("nvfp4") is None
    assert load_gpu("b200-sxm").peak("nvfp4") == load_gpu("b200-sxm").peak("mxfp4") == 9e15
    assert load_gpu("mi355x").peak("nvfp4") is None


def test_names_are_lower_case_with_hyphens() -> None:
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in gpu_names())
