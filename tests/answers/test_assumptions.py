"""What a step takes for granted is said."""

import pytest

from kvcalc.answers.question import ask
from kvcalc.answers.step import step


def names(model: str, **flags: str) -> set[str]:
    report = step(ask(model, {"gpu": "h100-sxm", "batch": "8", "context": "2048", **flags}))
    found = [one.name for one in report.assumptions]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("model, engine, said", [
    ("gpt-oss-20b", "vllm", True),
    ("gpt-oss-20b", "ideal", False),  # the lessons' step reads every expert
    ("llama-3-8b", "vllm", False),
])  # fmt: skip
def test_uniform_routing(model: str, engine: str, said: bool) -> None:
    assert ("expert routing" in names(model, engine=engine)) is said


def test_a_layout_that_leaves_the_node() -> None:
    assert "nodes" in names("llama-3-8b", tensor_parallel_size="8", pipeline_parallel_size="2")
    assert "nodes" not in names("llama-3-8b", tensor_parallel_size="8")
