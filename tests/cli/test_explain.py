"""Every printed formula, evaluated from its printed inputs, gives the printed figure."""

from bisect import bisect_left
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

DRAFTS = "--draft ngram --num-speculative-tokens 3 --acceptance 0.6"
SHOWN = [
    "size llama-3-8b --gpu h100-sxm -tp 2 --isl 2k --osl 256",
    "size llama-3-8b --gpu l40s --isl 2k --osl 256 --concurrency 500 --prefix-hit 1024",
    "size gpt-oss-20b --gpu h100-sxm --isl 1k --osl 99 --equal-lengths --concurrency 8",
    "size qwen3-8b --gpu h100-sxm --engine sglang --isl 1k --osl 99 --scheduler-recv-interval 10",
    "size llama-3-8b --gpu h100-sxm --engine trtllm -dp 2 --batch 8",
    f"size llama-3-8b --gpu h100-sxm --isl 2k --osl 256 --concurrency 16 {DRAFTS}",
    f"size llama-3-8b --gpu h100-sxm --isl 2k --osl 256 --concurrency 16 --equal-lengths {DRAFTS}",
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


# Every other command, and what its JSON has that is asked or counted, and no figure of its page.
OTHERS = [
    "kv gpt-oss-20b --batch 4", "kv qwen3-next-80b-a3b", "kv deepseek-v3 --engine vllm --context 8k",
    "models gpt-oss-20b",
    "compare llama-3-8b --gpu l40s --gpu h100-sxm --price 2", "size llama-3-8b --context 2k",
    "compare llama-3-8b --gpu l40s -tp 1 -tp 2 --isl 1k --osl 200",
    "curve llama-3-8b --gpu h100-sxm --batch 1 --batch 64 --context 2k",
    "curve llama-3-8b --gpu h100-sxm --isl 1k --osl 200 --concurrency 8",
    "prefill llama-3-8b --gpu h100-sxm --isl 32k --batch 8",
    "prefill gpt-oss-120b --gpu h100-sxm -tp 2 --batch 64 --context 1k --isl 4k --osl 200 --tpot 50ms --prefix-hit 1k",
    "prefill llama-3-8b --gpu h100-sxm --batch 64 --context 1024 --engine ideal",
    "speculate llama-3-8b --gpu l40s --acceptance 0.8 --draft llama-3.2-1b",
    "speculate llama-3-8b --gpu l40s --acceptance 0.8 --acceptance 0.6 --draft eagle-3 --isl 1k --osl 100",
    "simulate smollm2-135m --gpu l4 --isl 64 --osl 8 --request-rate 4 --requests 20 --ttft 30ms",
    "plan llama-3-8b --gpu l40s -tp 1 --isl 1k --osl 200 --users 300 --tpot 40ms",
    "plan llama-3-8b --gpu l40s -tp 1 --isl 1k --osl 99 --requests-per-day 100000 --api-price input=0.1,output=0.4",
]  # fmt: skip
ASKED = {
    *(
        "batch",
        "context",
        "mean_context",
        "chunk",
        "start",
        "steps",
        "block_size",
        "copies",
        "layers",
        "hidden",
        "vocab",
    ),
    *("max_context", "max_model_len", "window", "ratio", "read_limit_tokens", "price", "paging", "memory", "ideal"),
    *("tried", "fitting", "meeting", "next_cheaper", "usd_per_request", "input_len", "output_len", "timeline", "line"),
    *("limit_s", "percentile", "acceptance", "acceptance_rate", "prefill_replicas", "decode_replicas", "busy_share"),
    *("asked_tokens", "tokens", "max_batch_without", "sellers", "not_ranked", "tp", "varies", "advice", "by_context"),
    *("gpus_billed", "usd_per_hour", "memory_bytes", "kv_cache_size_tokens", "max_num_seqs", "num_blocks", "requests"),
    *("kv_pool_low_bytes_per_gpu", "kv_pool_high_bytes_per_gpu", "kv_cache_bytes_per_token", "estimated_max_model_len"),
    *("kv_cache_needed_bytes_per_gpu", "fixed_bytes_per_sequence", "output_tokens_per_s_per_gpu", "separate_pools"),
    *(
        "group",
        "state_bytes",
        "cache_bytes",
        "tpot_target_s",
        "under_tpot",
        "gpus",
        "bound_step_time_s",
        "price_usd_per_hour",
    ),
}


def figures_in(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a result with its key, but for what was asked or counted; nothing is no figure."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in NO_FIGURES | ASKED or (key in ("by_context",) and "bytes" in str(one)):
                yield from figures_in(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from figures_in(one, name)
    elif isinstance(value, int | float) and not isinstance(value, bool) and value:
        yield name, value


@pytest.mark.parametrize("line", OTHERS)
def test_every_figure_of_every_command_is_explained(cli: Cli, line: str) -> None:
    """The same, of whole results."""
    answer = cli(line + " --explain --json").json
    known = sorted(value for one in answer["figures"] for value in (one["value"], *one["inputs"].values()) if value)
    for name, wanted in figures_in(answer["result"]):
        place = bisect_left(known, wanted - abs(wanted) * 1e-9)
        assert place < len(known), (name, wanted)
        assert known[place] == pytest.approx(wanted, rel=2e-9), (name, wanted)


@pytest.mark.parametrize("line", SHOWN)
def test_every_figure_of_the_page_is_explained(cli: Cli, line: str) -> None:
    """Each number that the page shows is a figure's, or the input of one: a count that the model's config gives."""
    answer = cli(line + " --explain --json").json
    known = [value for one in answer["figures"] for value in (one["value"], *one["inputs"].values())]
    for name in OF_A_PAGE:
        for wanted in numbers(answer["result"].get(name)):
            assert any(one == pytest.approx(wanted, rel=1e-9) for one in known), (name, wanted)


REPORT = "report smollm2-135m --gpu l4 --isl 256 --osl 16 --users 5"


@pytest.mark.parametrize("line", [*LINES, *SHOWN, *OTHERS, REPORT])
def test_formulas_give_their_figures(cli: Cli, line: str) -> None:
    figures = [build(Figure, one) for one in cli(line + " --explain --json").json["figures"]]
    assert figures
    for figure in figures:
        assert evaluate(figure) == pytest.approx(figure.value, rel=1e-12), figure
        assert figure.source
    assert len({figure.name for figure in figures}) == len(figures)


@pytest.mark.parametrize("line", SHOWN)
def test_a_range_is_around_its_figure(cli: Cli, line: str) -> None:
    """What low and high are shares of is what the formula gave, drafts or not."""
    figures = {one["name"]: one for one in cli(line + " --explain --json").json["figures"]}
    ends = [name for name in figures if name.endswith(", low") and name.removesuffix(", low") in figures]
    assert ends
    for name in ends:
        around, value = figures[name]["inputs"].get("value"), figures[name.removesuffix(", low")]["value"]
        assert around is None or around == pytest.approx(value, rel=1e-9), name


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


def test_a_report_explains_its_deployment_and_its_plan(cli: Cli) -> None:
    answer = cli(REPORT + " --json").json
    known = [value for one in answer["figures"] for value in (one["value"], *one["inputs"].values())]
    plan, size = answer["result"]["plan"]["candidates"], answer["result"]["size"]
    shown = [size["serving"][name]["value"] for name in ("ttft_s", "tpot_s", "output_tokens_per_s")]
    shown += [one[name]["value"] for one in plan for name in ("ttft_s", "tpot_s")]
    for wanted in shown:
        assert any(one == pytest.approx(wanted, rel=1e-9) for one in known), wanted
