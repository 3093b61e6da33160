"""What llama.cpp puts on the fullest GPU: the file without the table of the input embedding, in its layers' parts."""

import pytest

from kvcalc.answers.question import ask
from kvcalc.catalog.models import load_model
from kvcalc.engines import loaded_weight_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment

FILE = 16_060_522_496  # Llama-3-8B, bf16
NORMS = (2 * 32 + 1) * 4096 * 2  # whole on each GPU
TABLE = 128_256 * 4096 * 2
LAYER = 2 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336 + 2 * 4096)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_the_table_stays_with_the_cpu(tp: int) -> None:
    deployment = Deployment(engine="llamacpp", tensor_parallel_size=tp)
    found = loaded_weight_bytes(load_model("llama-3-8b"), deployment)
    assert found == (FILE - NORMS - TABLE) // tp + NORMS


def test_so_do_the_layers_that_are_not_offloaded() -> None:
    deployment = Deployment(engine="llamacpp", n_gpu_layers=20)
    assert loaded_weight_bytes(load_model("llama-3-8b"), deployment) == FILE - TABLE - 13 * LAYER


def test_vllms_way_to_offload_is_none_of_its_own() -> None:
    with pytest.raises(KvcalcError, match="--cpu-offload-gb is vLLM's") as caught:
        ask("llama-3-8b", {"gpu": "rtx3090", "engine": "llamacpp", "cpu_offload_bytes": "4"})
    assert "-ngl" in caught.value.hint
    with pytest.raises(KvcalcError, match="--offload-group-size is vLLM's"):
        ask("llama-3-8b", {"gpu": "rtx3090", "engine": "llamacpp", "offload_group_size": "4"})
