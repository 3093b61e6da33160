"""A word that means nothing is refused by every command that takes it."""

import pytest

from tests.cli.conftest import Cli

WHERE = {
    "models": "models llama-3-8b", "kv": "kv llama-3-8b", "size": "size llama-3-8b --gpu h100-sxm",
    "step": "step llama-3-8b --gpu h100-sxm --context 2k", "prefill": "prefill llama-3-8b --gpu h100-sxm --isl 1k",
    "curve": "curve llama-3-8b --gpu h100-sxm --context 2k --batch 1",
    "compare": "compare llama-3-8b --gpu h100-sxm --context 2k",
    "speculate": "speculate llama-3-8b --gpu h100-sxm --acceptance 0.8 --draft-cost 0.1 --context 2k",
}  # fmt: skip
FLAGS = {
    "--dtype": WHERE.keys() - {"kv"}, "--quantization": WHERE.keys() - {"kv"}, "--kv-cache-dtype": WHERE.keys(),
    "--mamba-ssm-cache-dtype": WHERE.keys(),
}  # fmt: skip


@pytest.mark.parametrize(("command", "flag"), [(one, flag) for flag, known in FLAGS.items() for one in sorted(known)])
def test_a_type_that_does_not_exist(cli: Cli, command: str, flag: str) -> None:
    ran = cli(f"{WHERE[command]} {flag} banana")
    assert ran.code == 2, ran.out
    assert "banana" in ran.err
    assert ran.err.count("error:") == ran.err.count("hint:") == 1


@pytest.mark.parametrize("flag", ["--quantization fp8", "--dtype fp16", "--kv-cache-dtype fp8"])
def test_the_list_of_models_takes_no_model_flag(cli: Cli, flag: str) -> None:
    ran = cli(f"models {flag}")
    assert ran.code == 2
    assert flag.split()[0] in ran.err


def test_a_gguf_without_a_file_on_one_page(cli: Cli) -> None:
    ran = cli("size llama-3.1-8b -q q4_k_m --engine llamacpp --context 8k --gpu", "rtx 4070")
    assert ran.code == 0
    assert "gguf Q4_K_M" in ran.out
    assert "RTX 4070 12GB" in ran.out
    assert "tokens/s" in ran.out
