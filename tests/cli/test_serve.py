"""`--serve`: a pasted command in place of MODEL and flags."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, assert_refused


def test_a_command_answers_as_its_flags_would(cli: Cli) -> None:
    pasted = cli("size --gpu h100-sxm --json --serve", "vllm serve llama-3-70b -tp 4 --max-model-len 8K --port 80")
    typed = cli("size llama-3-70b --gpu h100-sxm --json -tp 4 --max-model-len 8K")
    assert pasted.result == typed.result
    inputs = pasted.json["inputs"]
    serve = inputs.pop("serve")
    assert inputs == typed.json["inputs"]
    assert serve["engine"] == "vllm"
    assert serve["model"] == "llama-3-70b"
    assert serve["ignored"] == ["--port"]


COMMANDS = [
    "kv",
    "step --gpu h100-sxm",
    "curve --gpu h100-sxm",
    "compare --gpu h100-sxm",
    "prefill --gpu h100-sxm --isl 2k",
    "speculate --gpu h100-sxm --draft-cost 0.1 --acceptance 0.8",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_one(cli: Cli, command: str) -> None:
    ran = cli(f"{command} --json --serve", "vllm serve llama-3-8b --max-model-len 4096 --gpu-memory-utilization 0.8")
    assert ran.code == 0, ran.err
    assert ran.json["inputs"]["serve"]["model"] == "llama-3-8b"


def test_a_flag_beside_it_wins_and_that_is_said(cli: Cli) -> None:
    ran = cli("size --gpu h100-sxm --json -tp 2 --serve", "vllm serve llama-3-70b -tp 4")
    assert ran.json["inputs"]["tensor_parallel_size"] == 2
    said = [one for one in ran.json["assumptions"] if one["name"] == "tensor_parallel_size"]
    assert said[0]["value"] == "2"
    assert "-tp 4" in said[0]["why"]


def test_a_model_beside_it_stands_for_one_that_is_not_here(cli: Cli) -> None:
    line = "llama-server -m $DIR/model.gguf -np 1"
    assert_refused(cli("size --gpu rtx-4090 --serve", line))
    assert cli("size llama-3-8b -q Q4_K_M --gpu rtx-4090 --json --serve", line).json["inputs"]["engine"] == "llamacpp"


def test_a_variable_that_counts_is_an_error_that_names_it(cli: Cli) -> None:
    line = "vllm serve $MODEL -tp $TP --port $PORT"
    ran = cli("size llama-3-8b --gpu h100-sxm --serve", line)
    assert_refused(ran)
    assert "$TP" in ran.err
    assert "$PORT" not in ran.err
    assert cli("size llama-3-8b -tp 2 --gpu h100-sxm --serve", line).code == 0


def test_an_unknown_flag_is_named_with_its_nearest(cli: Cli) -> None:
    ran = cli(
        "size --gpu h100-sxm --json --serve", "vllm serve llama-3-8b --max-model-length 4k --tensor-paralel-size 2"
    )
    assert ran.code == 0
    assert "--tensor-paralel-size (nearest: --tensor-parallel-size)" in ran.err
    assert ran.json["inputs"]["serve"]["unknown"] == ["--max-model-length", "--tensor-paralel-size"]
    assert ran.json["inputs"]["tensor_parallel_size"] == 1


def test_a_stand_in_without_experts_or_in_another_format_is_taken_as_it_is(cli: Cli) -> None:
    ran = cli("size llama-3-8b --gpu h100-sxm --json --serve", "vllm serve a/moe -ep -q modelopt --max-model-len 4k")
    assert ran.code == 0, ran.err
    assert ran.json["inputs"]["enable_expert_parallel"] is False
    assert {"enable_expert_parallel", "quantization"} <= {one["name"] for one in ran.json["assumptions"]}


def test_two_engines_at_once_are_refused(cli: Cli) -> None:
    assert_refused(cli("size llama-3-8b --gpu h100-sxm --engine sglang --serve", "vllm serve m"))


def test_a_budget_may_hold_a_command(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "budget.toml").write_text(
        'schema = "kvcalc.budget/1"\n[defaults]\nmax-model-len = "2k"\ngpu = "h100-sxm"\n'
        "[[deployment]]\n"
        f"serve = {json.dumps('vllm serve llama-3-70b -tp 4 --max-model-len 8K')}\n"
        "[deployment.limit]\nmax-gpus = 4\nmin-sequences = 10\n"
    )
    ran = cli(f"check {tmp_path}/budget.toml --json")
    assert ran.code == 0, ran.err
    limits = {one["name"]: one["have"] for one in ran.result["deployments"][0]["limits"]}
    size = cli("size llama-3-70b -tp 4 --max-model-len 8K --gpu h100-sxm --json").result
    assert limits == {"max-gpus": 4, "min-sequences": size["kv_cache_max_concurrency"]}


def test_the_page_says_what_was_read(cli: Cli) -> None:
    ran = cli("size --gpu h100-sxm --serve", "vllm serve llama-3-8b --max-model-len 4k --host 0 --attention-backend X")
    assert "From the command" in ran.out
    assert "changes nothing here: --host" in ran.out
    assert "not modelled: --attention-backend" in ran.out


def test_a_check_says_what_was_read_of_its_commands(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "budget.toml").write_text(
        'schema = "kvcalc.budget/1"\n[defaults]\ngpu = "h100-sxm"\n'
        '[[deployment]]\nname = "chat"\nserve = "vllm serve llama-3-8b --port 80 --max-model-length 4k"\n'
        "[deployment.limit]\nfits = true\n"
    )
    ran = cli(f"check {tmp_path}/budget.toml --json")
    (serve,) = ran.json["inputs"]["serve"]
    assert (serve["deployment"], serve["ignored"], serve["unknown"]) == ("chat", ["--port"], ["--max-model-length"])
    assert "chat: --serve: vLLM has no --max-model-length (nearest: --max-model-len)" in ran.err
    strict = cli(f"check {tmp_path}/budget.toml --json --strict")
    assert strict.code == 2
    assert "vLLM has no --max-model-length" in strict.err


def test_several_commands_are_compared_by_what_differs(cli: Cli) -> None:
    two = "vllm serve llama-3-70b -tp 4 --max-model-len 8K", "sglang serve --model-path llama-3-70b --tp 8"
    ran = cli("compare --gpu h100-sxm --json", "--serve", two[0], "--serve", two[1])
    assert set(ran.result["varying"]) == {"engine", "tensor-parallel-size", "max-model-len"}
    assert [one["engine"] for one in ran.json["inputs"]["serve"]] == ["vllm", "sglang"]
    rows = {row["engine"]: row for row in ran.result["rows"]}
    alone = cli("size --gpu h100-sxm --json", "--serve", two[1]).result
    assert rows["sglang"]["kv_cache_size_tokens"] == alone["kv_cache_size_tokens"]
    assert rows["sglang"]["varies"]["max-model-len"] is None


def test_a_command_that_says_the_same_is_no_row(cli: Cli) -> None:
    same = "--serve", "vllm serve llama-3-8b", "--serve", "vllm serve llama-3-8b --port 80"
    ran = cli("compare --gpu l4 --gpu l40s --json", *same)
    assert len(ran.result["rows"]) == 2
    assert "command 2 says the same" in ran.err
