"""Mistakes are told by the flag that makes them."""

import pytest
from pydantic import ValidationError

from kvcalc.catalog.gpus import load_gpu
from kvcalc.errors import KvcalcError
from kvcalc.specs.checked import UNKNOWN_FIELD, checked, first_mistake, flag_of
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.load import Workload


@pytest.mark.parametrize("values, said", [
    ({"tensor_parallel_size": 0}, "--tensor-parallel-size: 0 is below 1"),
    ({"tensor_parallel_size": 5000}, "--tensor-parallel-size: 5000 is above 4,096"),
    ({"gpu_memory_utilization": 0}, "--gpu-memory-utilization: 0 must be above 0"),
    ({"engine": "vlm"}, "--engine: 'vlm' is not one of"),
    ({"kv_memory_bytes": True}, "--kv-memory: true is not its kind of value"),
    ({"no_such_thing": 1}, "--no-such-thing: not known here"),
])  # fmt: skip
def test_the_first_mistake_is_named_by_its_flag(values: dict[str, object], said: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        checked(Deployment, values, where="budget.toml: ")
    assert caught.value.message.startswith(f"budget.toml: {said}")


def test_every_flag_with_another_name_is_of_a_field() -> None:
    fields = {*Deployment.model_fields, *Workload.model_fields}
    spelled = {flag_of(field) for field in fields}
    assert len(spelled) == len(fields)
    assert {"--kv-memory", "--cpu-offload-gb", "--ttft", "--price"} <= spelled


@pytest.mark.parametrize("values, place, why", [
    ({"colour": "green"}, "colour", UNKNOWN_FIELD),
    ({"links": [{"name": "nvlink"}]}, "links.0.bandwidth_bytes_per_s", "missing"),
    ({"peak_flops": {}}, "peak_flops", "empty; use"),
])  # fmt: skip
def test_a_mistake_in_a_file_is_named_by_its_place(values: dict[str, object], place: str, why: str) -> None:
    whole = load_gpu("l4").model_dump(exclude_none=True)
    with pytest.raises(ValidationError) as caught:
        GpuSpec.model_validate(whole | values)
    found, said = first_mistake(caught.value)
    assert found == place
    assert said.startswith(why)
