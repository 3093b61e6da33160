"""`kvcalc step --tokens-per-step`."""

from tests.cli.conftest import Cli, assert_refused


def test_many_tokens_a_step(cli: Cli) -> None:
    result = cli("step llama-3-8b --gpu h100-sxm --engine ideal --tokens-per-step 2k --json").result
    assert result["tokens_per_step"] == 2000
    assert result["batch"] == 1
    assert result["limit"] == "compute"
    assert "2,000 tokens each" in cli("step llama-3-8b --gpu h100-sxm --tokens-per-step 2k").out


def test_refused(cli: Cli) -> None:
    for text in ("0", "x", "8.5K"):
        assert_refused(cli(f"step llama-3-8b --gpu h100-sxm --tokens-per-step {text}"))
