"""What paging costs: the lessons' kernel, the whole step, and the batch that pays for it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import operating_point
from kvcalc.answers.paging import paging_of
from kvcalc.answers.question import ask
from kvcalc.results.paging import Paging


def run(model: str = "llama-3-8b", **flags: object) -> Paging | None:
    deployed = Deployed(ask(model, {"gpu": "h100-sxm", **{name: str(value) for name, value in flags.items()}}))
    return paging_of(deployed, operating_point(deployed))


def test_the_lessons_example() -> None:
    """Lesson 12, sections 3 and 4: 46 sequences reserved at 8,192, 186 paged; a kernel 20 to 26 % slower."""
    found = run(engine="ideal", kv_memory_bytes="50GB", context=2048)
    assert found is not None
    assert (found.contiguous_batch, found.paged_batch) == (46, 186)
    assert (found.kernel_slowdown_low, found.kernel_slowdown_high) == (0.20, 0.26)
    assert found.gain is not None
    assert found.gain > 1.4  # "the larger batch more than pays for it"
    # 186 caches of 2,048 tokens are 49.9 of the step's 66.0 GB
    assert found.step_slowdown_low == pytest.approx(0.20 * 49.93 / 65.99, rel=1e-3)
    assert found.step_slowdown_high == pytest.approx(0.26 * 49.93 / 65.99, rel=1e-3)


@settings(max_examples=20)
@given(st.integers(1, 64), st.integers(64, 8192))
def test_the_step_slows_less_than_its_attention(batch: int, context: int) -> None:
    for engine in ("ideal", "vllm"):
        found = run(engine=engine, batch=batch, context=context)
        assert found is not None
        assert 0 <= found.step_slowdown_low <= found.step_slowdown_high < 0.26
        assert found.paged_batch >= found.contiguous_batch


def test_at_the_maximum_length_paging_only_costs() -> None:
    found = run(context=8192)
    assert found is not None
    assert found.paged_batch == found.contiguous_batch
    assert found.gain is not None
    assert found.gain < 1


def test_nothing_is_reserved_where_nothing_grows_or_fits() -> None:
    assert run("falcon-mamba-7b", context=2048) is None
    assert run("llama-3-70b", context=2048, batch=1) is None
