"""Every printed formula, evaluated from its printed inputs, gives the printed figure."""

from collections.abc import Iterator
from typing import Any

import pytest

from kvcalc.answers.explain import evaluate
from kvcalc.results.base import Figure
from kvcalc.specs.build import build
from tests.cli.conftest import Cli

LINES = [
    "kv llama-3-8b llama-2-7b",
    "size llama-3-8b --gpu h100-sxm --price 2.5",
    "size llama-3-8b --gpu h100-sxm --engine ideal --kv-memory 50GB --context 2048",
    "size gpt-oss-120b --gpu h100-sxm -tp 2 --context 8k",
    "size llama-3-70b --gpu h100-sxm -tp 2 -pp 2 -dp 2 --batch 8",
    "size phi-4-mini-reasoning --gpu b200-sxm --engine-version 0.6",  # windows that this version does not keep to
    "step llama-3-8b --gpu h100-sxm --batch 64 --context 2048",
    "step deepseek-v3 --gpu h200-sxm -tp 8 --batch 64 --context 4096",
    "step qwen3-32b --gpu h200-sxm -q fp8 --batch 16 --context 4096 --engine ideal",
    "prefill llama-3-8b --gpu h100-sxm --batch 64 --context 1024 --engine ideal",
    "prefill gpt-oss-120b --gpu h100-sxm -tp 2 --batch 64 --context 1024 --isl 4k",
    "speculate llama-3-8b --gpu h100-sxm --draft llama-3.2-1b --acceptance 0.8 --context 2048",
    "speculate llama-3-8b --gpu h100-sxm --draft-cost 0.15 --acceptance 0.8 --engine ideal",
    "step llama-3-8b --gpu h100-sxm --tokens-per-step 2048",
    "gpus h100-sxm",
]


SHOWN = [
    "size llama-3-8b --gpu h100-sxm -tp 2 --isl 2k --osl 256",
    "size llama-3-8b --gpu l40s --isl 2k --osl 256 --concurrency 500 --prefix-hit 1024",
    "size gpt-oss-20b --gpu h100-sxm --isl 1k --osl 99 --equal-lengths --concurrency 8",
    "size qwen3-8b --gpu h100-sxm --engine sglang --isl 1k --osl 99 --scheduler-recv-interval 10",
    "size llama-3-8b --gpu h100-sxm --engine trtllm -dp 2 --batch 8",
    "step deepseek-v3 --gpu h200-sxm -tp 8 --batch 64 --context 4096",
]
OF_A_PAGE = (
    *("weight_bytes_per_gpu", "overhead_bytes_per_gpu", "kv_pool_bytes_per_gpu", "kv_cache_max_concurrency"),
    *("max_batch", "bound", "estimate", "serving", "by_context", "bytes", "flops", "intensity_flop_per_byte"),
    *("ridge_flop_per_byte", "memory_time_s", "compute_time_s", "bound_s", "operator_bound_s", "estimate_s"),
)
NO_FIGURES = {
    "context",
    "prefix_hit",
    "waiting",
    "running",
    "num_prompts",
    "ttft_alone_bound_s",
    "output_tokens_per_s_per_gpu",
}


def numbers(value: Any) -> Iterator[float]:
    """Every number in a part of a result, but for what was asked."""
    if isinstance(value, dict):
        for name, one in value.items():
            if name not in NO_FIGURES:
                yield from numbers(one)
    elif isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.parametrize("line", SHOWN)
def test_every_figure_of_the_page_is_explained(cli: Cli, line: str) -> None:
    """Each number that the page shows is a figure's, or the input of one: a count that the model's config gives."""
    answer = cli(line + " --explain --json").json
    known = [value for one in answer["figures"] for value in (one["value"], *one["inputs"].values())]
    for name in OF_A_PAGE:
        for wanted in numbers(answer["result"].get(name)):
            assert any(one == pytest.approx(wanted, rel=1e-9) for one in known), (name, wanted)


@pytest.mark.parametrize("line", [*LINES, *SHOWN])
def test_formulas_give_their_figures(cli: Cli, line: str) -> None:
    figures = [build(Figure, one) for one in cli(line + " --explain --json").json["figures"]]
    assert figures
    for figure in figures:
        assert evaluate(figure) == pytest.approx(figure.value, rel=1e-12), figure
        assert figure.source
    assert len({figure.name for figure in figures}) == len(figures)


@pytest.mark.parametrize("line", LINES)
def test_the_table_shows_formula_values_and_source(cli: Cli, line: str) -> None:
    out = cli(line + " --explain").out
    figures = [build(Figure, one) for one in cli(line + " --explain --json").json["figures"]]
    flat = " ".join(out.split())
    for figure in figures:
        assert " ".join(f"= {figure.formula}".split()) in flat
        assert " ".join(f"= {figure.substituted}".split()) in flat
        assert " ".join(f"source: {figure.source}".split()) in flat


@pytest.mark.parametrize("engine", ["ideal", "vllm", "sglang", "trtllm", "llamacpp"])
@pytest.mark.parametrize("model", ["llama-3-8b", "gpt-oss-20b", "qwen3.5-27b"])
def test_what_the_pool_holds_is_explained(cli: Cli, model: str, engine: str) -> None:
    envelope = cli(
        f"size {model} --gpu h100-sxm --engine {engine} --max-num-seqs 64 --context 8192 --explain --json"
    ).json
    figures, result = {one["name"]: one["value"] for one in envelope["figures"]}, envelope["result"]
    assert figures["sequences at 8,192"] == result["max_batch"]
    if engine != "ideal":
        assert figures["concurrency"] == pytest.approx(result["kv_cache_max_concurrency"])


def test_the_explained_figures_are_the_reported_ones(cli: Cli) -> None:
    envelope = cli("step llama-3-8b --gpu h100-sxm --batch 64 --context 2048 --explain --json").json
    figures = {one["name"]: one["value"] for one in envelope["figures"]}
    result = envelope["result"]
    assert figures["bytes of the step"] == pytest.approx(result["bytes"])
    assert figures["FLOPs of the step"] == pytest.approx(result["flops"])
    assert figures["bound"] == pytest.approx(result["bound_s"])
    assert figures["memory time"] == pytest.approx(result["memory_time_s"])
    assert figures["intensity"] == pytest.approx(result["intensity_flop_per_byte"])
    assert figures["bound per operator"] == pytest.approx(result["operator_bound_s"])
    assert figures["estimate"] == pytest.approx(result["estimate_s"]["value"])
