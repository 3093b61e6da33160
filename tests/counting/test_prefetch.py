"""Layers that are fetched ahead: vLLM's own example of its groups, and passes by hand."""

import numpy as np
import pytest

from kvcalc.catalog.models import load_model
from kvcalc.counting.prefetch import Prefetch, prefetch_of, with_copies
from kvcalc.errors import KvcalcError
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import MoeMlp

LAYER = 2 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096)  # bytes, of Llama 3 8B in bf16


def asked(**flags: object) -> Prefetch | None:
    return prefetch_of(load_model("llama-3-8b"), checked(Deployment, {"engine": "vllm", **flags}))


def test_the_last_of_every_group() -> None:
    """vllm/config/offload.py: `group_size=8, num_in_group=2 offloads layers 6,7,14,15,22,23,...`."""
    found = asked(offload_group_size=8, offload_num_in_group=2, offload_prefetch_step=3)
    assert found is not None
    assert found.places == (6, 7, 14, 15, 22, 23, 30, 31)
    assert found.host_bytes == 8 * LAYER
    assert found.freed_bytes == 5 * LAYER  # three buffers


def test_nothing_without_a_group_and_no_more_than_a_group_has() -> None:
    assert asked() is None
    assert asked(offload_group_size=64) is None  # 32 layers: none is the last of 64
    with pytest.raises(KvcalcError, match="above --offload-group-size 2"):
        asked(offload_group_size=2, offload_num_in_group=3)


def test_units_and_bytes_that_a_published_run_offloaded() -> None:
    """vllm-project/vllm pull request 51710: 20 of 61 positions, 33,690,746,880 bytes a rank of 8.

    Of DeepSeek-V4-Pro; its selector takes the routed experts alone: 4 bits, and a byte of scale for each 32 weights.
    """
    model = load_model("deepseek-v4-pro-nvfp4")
    found = prefetch_of(model, checked(Deployment, {"engine": "vllm", "offload_group_size": 3}))
    assert found is not None
    assert (found.layers, len(found.places)) == (61, 20)
    mlp = model.groups[-1].mlp
    assert isinstance(mlp, MoeMlp)
    each = mlp.experts * 3 * model.hidden * mlp.expert_width
    assert 20 * each * 17 // 32 // 8 == 33_690_746_880


@pytest.mark.parametrize("ahead, copy, whole", [(1, 2, 10), (1, 5, 15), (2, 5, 14)])
def test_a_pass_by_hand(ahead: int, copy: int, whole: int) -> None:
    """Eight layers of one second, of which the fourth and the eighth are fetched.

    One ahead: the fourth ends at 4; the eighth waits until 4 + copy or 7, takes 1, and the next pass' copy follows. Two
    ahead: both were there when the pass began; copies for the next one start at 4, and at 8 or where the first ends.
    """
    assert with_copies(8.0, 1.0, Prefetch(8, (3, 7), (copy, copy), ahead)) == whole


def test_never_faster_than_the_link_or_the_computing_and_arrays_as_numbers() -> None:
    computing = np.array([1e-3, 1e-2, 1e-1])
    for ahead in (1, 2, 4):
        what = Prefetch(32, (7, 15, 23, 31), (10**8,) * 4, ahead)
        found = with_copies(computing, 50e9, what)
        assert (found >= np.maximum(computing, what.host_bytes / 50e9)).all()
        assert found.tolist() == [with_copies(float(one), 50e9, what) for one in computing]
