"""Machines and replicas that the tests of this room run passes on."""

from collections.abc import Callable

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.timing.engine_profiles import profile_for
from kvcalc.timing.machine import Machine, maker_of, with_profile


@pytest.fixture
def machine() -> Callable[..., Machine]:
    def make(gpu: str = "h100-sxm", engine: str = "vllm", version: str | None = None) -> Machine:
        spec = load_gpu(gpu)
        return with_profile(spec, profile_for(engine, version, maker_of(spec)))

    return make
