"""Mistakes are told by the flag that makes them, or by their place in a file."""

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.errors import KvcalcError
from kvcalc.results.data import said_of
from kvcalc.specs.base import field_names
from kvcalc.specs.checked import checked, flag_of
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.from_file import UNKNOWN_FIELD, Mistake, from_file
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.load import Workload


@pytest.mark.parametrize("values, said", [
    ({"tensor_parallel_size": 0}, "--tensor-parallel-size: 0 is below 1"),
    ({"tensor_parallel_size": 5000}, "--tensor-parallel-size: 5000 is above 4,096"),
    ({"tensor_parallel_size": 1.5}, "--tensor-parallel-size: 1.5 is not a whole number"),
    ({"gpu_memory_utilization": 0}, "--gpu-memory-utilization: 0 must be above 0"),
    ({"gpu_memory_utilization": float("nan")}, "--gpu-memory-utilization: nan is not a number"),
    ({"engine": "vlm"}, "--engine: 'vlm' is not one of 'ideal', 'vllm', 'sglang', 'trtllm' or 'llamacpp'"),
    ({"kv_memory_bytes": True}, "--kv-memory: true is not its kind of value"),
    ({"enforce_eager": "yes"}, "--enforce-eager: 'yes' is not its kind of value"),
    ({"dtype": 16}, "--dtype: 16 is not text"),
    ({"no_such_thing": 1}, "--no-such-thing: not known here"),
])  # fmt: skip
def test_the_first_mistake_is_named_by_its_flag(values: dict[str, object], said: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        checked(Deployment, values, where="budget.toml: ")
    assert caught.value.message == f"budget.toml: {said}"


def test_every_flag_with_another_name_is_of_a_field() -> None:
    fields = {*field_names(Deployment), *field_names(Workload)}
    spelled = {flag_of(field) for field in fields}
    assert len(spelled) == len(fields)
    assert {"--kv-memory", "--cpu-offload-gb", "--ttft", "--price"} <= spelled


@pytest.mark.parametrize("values, place, why", [
    ({"colour": "green"}, "colour", UNKNOWN_FIELD),
    ({"links": [{"name": "nvlink"}]}, "links.0.bandwidth_bytes_per_s", "missing"),
    ({"peak_flops": {}}, "peak_flops", "empty; use"),
    ({"sm_count": 0}, "sm_count", "Input should be greater than or equal to 1"),
])  # fmt: skip
def test_a_mistake_in_a_file_is_named_by_its_place(values: dict[str, object], place: str, why: str) -> None:
    with pytest.raises(Mistake) as caught:
        from_file(GpuSpec, said_of(load_gpu("l4")) | values)
    assert caught.value.where == place
    assert caught.value.why.startswith(why)


def test_what_a_spec_says_is_read_as_the_same_spec() -> None:
    for name in ("l4", "h100-sxm", "apple-m4-max"):
        assert from_file(GpuSpec, said_of(load_gpu(name))) == load_gpu(name)
