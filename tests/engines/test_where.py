"""Where an engine runs at all: what its makers build it for."""

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.engines import check_runs, rules
from kvcalc.errors import KvcalcError


@pytest.mark.parametrize(
    "engine, gpu, others",
    [
        ("trtllm", "mi300x", "vllm or sglang or llamacpp"),
        ("trtllm", "apple-m4-max", "vllm or sglang or llamacpp"),
        ("sglang", "trainium2", "vllm"),
        ("llamacpp", "tpu-v5e", "vllm or sglang"),
    ],
)
def test_no_build_for_it_is_an_error_that_names_the_others(engine: str, gpu: str, others: str) -> None:
    with pytest.raises(KvcalcError, match="does not run on") as found:
        check_runs(engine, load_gpu(gpu))
    assert found.value.hint == f"use --engine {others}"


@pytest.mark.parametrize(
    "engine, gpu, said",
    [
        ("vllm", "p40", "wants compute capability 7.5, and this card has 6.1"),  # Pascal
        ("trtllm", "t4", "wants compute capability 8.0, and this card has 7.5"),  # Turing
        ("vllm", "apple-m4-max", "only with the vLLM-Metal plugin"),
        ("vllm", "t4", None),
        ("vllm", "b200-sxm", None),  # 10.0 is above 7.5
        ("sglang", "mi300x", None),
        ("llamacpp", "p40", None),
        ("ideal", "p40", None),
    ],
)
def test_what_speaks_against_it(engine: str, gpu: str, said: str | None) -> None:
    check_runs(engine, load_gpu(gpu))
    found = rules(engine).doubt(load_gpu(gpu))
    assert (found is None) == (said is None)
    assert said is None or said in (found or "")
