"""llama.cpp's kernels: which row holds for a device, a backend and a build."""

from dataclasses import asdict

import pytest
from pydantic import TypeAdapter

from kvcalc.catalog.ggml import ggml_kernels, host_bandwidth, local_setting, month_of, rows
from kvcalc.catalog.gpus import all_gpus, load_gpu
from kvcalc.errors import KvcalcError
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.ggml import GgmlKernels


def setting(gpu: str, **said: object) -> tuple[str, str, bool]:
    found = local_setting(load_gpu(gpu), checked(Deployment, {"engine": "llamacpp", **said}))
    return found.backend, found.month, found.flash_attention


def test_the_vendors_own_backend_is_the_default() -> None:
    assert [setting(gpu)[0] for gpu in ("rtx3090", "mi300x", "apple-m2-ultra", "arc-b580")] == [
        "cuda", "hip", "metal", "sycl",
    ]  # fmt: skip
    assert setting("rtx3090", backend="vulkan")[0] == "vulkan"


@pytest.mark.parametrize(("gpu", "backend"), [("rtx3090", "metal"), ("apple-m2-ultra", "vulkan"), ("mi300x", "cuda")])
def test_a_backend_that_does_not_run_there_is_an_error(gpu: str, backend: str) -> None:
    with pytest.raises(KvcalcError, match=f"--backend {backend}"):
        setting(gpu, backend=backend)


def test_llama_cpp_does_not_run_on_a_tpu() -> None:
    with pytest.raises(KvcalcError, match="does not run on"):
        setting("tpu-v5e")


def test_builds_and_dates() -> None:
    # Releases of github.com/ggml-org/llama.cpp: b2474 of 2024-03-22, b6077 of 2025-08-03, b9187 of 2026-05-18.
    assert [month_of(build) for build in ("b2474", "b6077", "9187")] == ["2024-03", "2025-08", "2026-05"]
    assert [month_of(date) for date in ("2025-03", "2025-03-14", "2025")] == ["2025-03", "2025-03", "2025-07"]
    with pytest.raises(KvcalcError, match="neither a build nor a date"):
        month_of("banana")


def test_flash_attention_is_on_by_default_since_september_2025() -> None:
    # ggml-org/llama.cpp pull request 15434, merged 2025-08-30.
    assert not setting("rtx3090", engine_version="b6077")[2]
    assert setting("rtx3090", engine_version="b6918")[2]
    assert setting("rtx3090", engine_version="b6077", flash_attn="on")[2]
    assert not setting("rtx3090", flash_attn="off")[2]


@pytest.mark.parametrize(("gpu", "said", "skips"), [
    ("rtx3090", {"engine_version": "2025-08"}, None),  # without flash attention nothing is skipped
    ("rtx3090", {"engine_version": "2025-07", "flash_attn": "on"}, None),
    # ggml-org/llama.cpp pull requests 14924, 16372 and 17186, and the condition in ggml-cuda/fattn-common.cuh.
    ("rtx3090", {"engine_version": "2025-08", "flash_attn": "on"}, (1024, False)),
    ("mi300x", {}, (1024, False)),
    ("apple-m2-ultra", {"engine_version": "2025-10"}, (1, True)),
    ("rtx3090", {"backend": "vulkan", "engine_version": "2025-10"}, None),
    ("rtx3090", {"backend": "vulkan", "engine_version": "2025-11"}, (1, True)),
    ("arc-b580", {}, None),
])  # fmt: skip
def test_what_attention_skips(gpu: str, said: dict[str, object], skips: tuple[int, bool] | None) -> None:
    found = local_setting(load_gpu(gpu), checked(Deployment, {"engine": "llamacpp", **said})).skips
    assert (None if found is None else (found.tokens, found.behind)) == skips


def test_rows_are_complete_and_every_device_has_one() -> None:
    for row in rows():
        TypeAdapter(GgmlKernels).validate_python(asdict(row))
        quants = {"legacy", "k", "mx", "plain"}
        for shares in (row.bandwidth_share, row.prompt_bandwidth_share, row.flops_share):
            assert set(shares) == quants
    for gpu in all_gpus():
        for backend in ("cuda", "hip", "metal", "sycl", "vulkan"):
            try:
                said = checked(Deployment, {"engine": "llamacpp", "backend": backend})
                found = local_setting(gpu, said)
            except KvcalcError:
                continue  # does not run there
            assert ggml_kernels(gpu, found).backend == backend


def test_the_newest_row_that_the_build_has_and_the_narrowest_class() -> None:
    def name(gpu: str, **said: object) -> str:
        spec = load_gpu(gpu)
        return ggml_kernels(spec, local_setting(spec, checked(Deployment, {"engine": "llamacpp", **said}))).name

    assert name("rtx3090") == "cuda"
    assert name("rtx3090", engine_version="2024-05") == "cuda-2023"
    assert name("rtx3090", engine_version="b1000") == "cuda-2023"  # older than all
    assert name("h100-sxm") == "cuda-hopper"
    assert name("gb10") == "cuda-unified"
    assert name("rx7900xt", backend="vulkan") == "vulkan-amd"


def test_hosts_by_name_or_number() -> None:
    assert host_bandwidth("epyc-9004") == 12 * 8 * 4.8e9  # twelve channels of eight bytes, DDR5-4800
    assert host_bandwidth("ddr5-6000") == 2 * 8 * 6e9
    assert host_bandwidth("100 GB/s") == 100e9
    assert host_bandwidth(None) == host_bandwidth("ddr5-5600")
    for wrong in ("epyc", "100", "100 furlongs"):
        with pytest.raises(KvcalcError):
            host_bandwidth(wrong)
