"""The largest step that runs from a graph, by engine: what a larger one costs, and what smaller ones leave free."""

import pytest

from kvcalc.answers.assumptions import assumptions_of
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import ask


def deployed(gpu: str = "rtx4090", **flags: object) -> Deployed:
    return Deployed(ask("qwen3-8b", {"gpu": gpu, "batch": "16", "context": "500", **flags}))


@pytest.mark.parametrize("flags, captured", [
    # python/sglang/srt/server_args.py: cuda_graph_max_bs by the memory of the card
    ({"engine": "sglang", "engine_version": "0.5.10"}, 24),
    ({"engine": "sglang", "engine_version": "0.5.10", "tensor_parallel_size": "4"}, 80),
    ({"engine": "sglang", "max_cudagraph_capture_size": "8"}, 8),
    ({"max_cudagraph_capture_size": "32"}, 32),
    ({"max_cudagraph_capture_size": "32", "num_speculative_tokens": "3"}, 8),  # vLLM counts tokens
    ({}, None),
])  # fmt: skip
def test_sequences_that_a_graph_covers(flags: dict[str, object], captured: int | None) -> None:
    assert deployed(**flags).replica.captured == captured


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_larger_step_runs_as_without_graphs(engine: str) -> None:
    size = "max_cudagraph_capture_size"
    few, none, many = (
        Performance(deployed("h100-sxm", engine=engine, **flags)).step
        for flags in ({size: "8"}, {"enforce_eager": True}, {size: "16"})
    )
    assert few is not None
    assert none is not None
    assert many is not None
    assert few.time_s == none.time_s > many.time_s


def test_fewer_graphs_hold_less_memory() -> None:
    few, many = (deployed("h100-sxm", max_cudagraph_capture_size=size).budget.graphs.value for size in ("8", "512"))
    assert 0 < few < many
    assert deployed("h100-sxm").budget.graphs.value == many  # vLLM's own default


def test_what_is_launched_is_an_assumption() -> None:
    def said(**flags: object) -> str | None:
        found = assumptions_of(deployed("h100-sxm", **flags))
        return next((one.why for one in found if one.name == "eager launches"), None)

    assert said() is None
    assert said(max_cudagraph_capture_size="16") is None
    assert str(said(enforce_eager=True)).startswith("without graphs")
    assert str(said(max_cudagraph_capture_size="8")).startswith("above 8 sequences")
