"""SGLang's fraction and pool, against start-up logs."""

import pytest

from kvcalc.engines import budget_of_start
from kvcalc.engines.memory.shape import Latents, ProfileShape
from kvcalc.engines.memory.start import Start
from kvcalc.engines.sglang.memory import static_fraction
from kvcalc.engines.sglang.rules import RULES
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.versions import parse_version
from kvcalc.units import GIB

TEXT = ProfileShape(hidden=5120, vocab=152064, layers=64, dense_width=27648)
KIMI_K25 = replace(
    TEXT, images=True, tower_layers=27, tower_hidden=1152, latents=Latents(query_heads=64, rank=512, rope=64)
)


def card(total_gib: float, vendor: str = "NVIDIA") -> GpuSpec:
    size = int(total_gib * GIB)
    return GpuSpec(
        name="card",
        title="card",
        vendor=vendor,
        architecture="unknown",
        memory_bytes=size,
        usable_memory_bytes=size,
        memory_bandwidth_bytes_per_s=1e12,
        peak_flops={"bf16": 1e14},
    )


def sglang(version: str, **flags: object) -> Deployment:
    return checked(Deployment, {"engine": "sglang", "engine_version": version} | flags)


@pytest.mark.parametrize(
    "shape, gpu, deployment, printed",
    [
        # what the milestones of the log give back: (pool + free_before - free_after) / free_before
        (TEXT, card(191.7), sglang("0.3"), 0.88),  # Llama-3.1-8B, MI300X
        (TEXT, card(22.1), sglang("0.4.3", tensor_parallel_size=4), 0.85),  # QwQ-32B
        (KIMI_K25, card(287.6), sglang("0.5.8", tensor_parallel_size=8), 0.826),  # Kimi-K2.5, 8 x MI355X
    ],
)
def test_default_fraction_of_logs(shape: ProfileShape, gpu: GpuSpec, deployment: Deployment, printed: float) -> None:
    assert deployment.engine_version is not None
    found = static_fraction(shape, gpu, deployment, parse_version(deployment.engine_version))
    assert found == pytest.approx(printed, abs=0.002)


@pytest.mark.parametrize(
    "free_before, weights, fraction, printed",
    [
        (191.33, 15.0, 0.88, 153.4),
        (21.63, 15.54, 0.85, 2.84),
        (283.68, 73.58, 0.826, 160.63),
        (93.61, 36.6, 0.6, 19.58),
    ],
)
def test_pool_of_logs(free_before: float, weights: float, fraction: float, printed: float) -> None:
    """Free memory before loading, weights, fraction, and the pool that was printed."""
    deployment = sglang("0.5.8", gpu_memory_utilization=fraction)
    context = 0.45  # what the card of this test is taken to hold before the engine
    found = budget_of_start(Start(TEXT, card(free_before + context), deployment, int(weights * GIB)))
    assert found.pool is not None
    assert found.pool.value / GIB == pytest.approx(printed, rel=0.01)


def test_the_table_of_requests_can_be_the_largest_thing() -> None:
    """Llama-4-Scout at its full context: 'tried to allocate 80.04 GiB'."""
    deployment = sglang("0.5.9", tensor_parallel_size=8)
    assert RULES.request_table(deployment, 10_485_760) / GIB == pytest.approx(80.04, abs=0.01)
    found = budget_of_start(Start(TEXT, card(79.2), deployment, 26 * GIB, max_model_len=10_485_760))
    assert found.starts is False
    assert found.warnings
