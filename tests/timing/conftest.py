"""Machines that the tests of this room run steps on."""

from collections.abc import Callable

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.kernels import load_kernels
from kvcalc.timing.price import Machine
from kvcalc.timing.profile import profile_for


@pytest.fixture
def machine() -> Callable[..., Machine]:
    def make(gpu: str = "h100-sxm", engine: str = "vllm", version: str | None = None) -> Machine:
        spec = load_gpu(gpu)
        kernels = load_kernels(spec, "llamacpp" if engine == "llamacpp" else None)
        return Machine(spec, kernels, profile_for(engine, version, spec.vendor))

    return make
