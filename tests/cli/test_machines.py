"""A cloud's machine on the command line: its card and node in the answer, and the bill of the whole machine."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli

SIZE = "size llama-3-8b --context 2048 --json"


def result(cli: Cli, line: str) -> tuple[Any, str]:
    ran = cli(line)
    assert ran.code == 0, ran.err
    return ran.json, ran.err


def test_idle_gpus_are_billed_and_said(cli: Cli) -> None:
    half, said = result(cli, f"{SIZE} --gpu p5.48xlarge -tp 4")
    card, _ = result(cli, f"{SIZE} --gpu h100-sxm -tp 4 --price 6.88")
    assert half["inputs"]["machine"] == "p5.48xlarge"
    assert half["inputs"]["gpu"] == "h100-sxm"
    assert "4 of the 8 GPUs of 1 × p5.48xlarge stand idle" in said
    assert half["result"]["usd_per_hour"] == pytest.approx(55.04)
    # Four GPUs do the work of four, and eight are paid: twice the cost of the same card at the same price.
    for kind in ("bound", "estimate"):
        costs = [one["result"][kind]["usd_per_million_output_tokens"] for one in (half, card)]
        whole, part = (cost if kind == "bound" else cost["value"] for cost in costs)
        assert whole == pytest.approx(2 * part)


def test_a_price_file_in_a_command(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('[usd_per_gpu_hour]\n"5090" = 0.5\n')
    answer, _ = result(cli, f"{SIZE} --gpu rtx5090 --price-file {path}")
    assert answer["result"]["usd_per_hour"] == 0.5
    _, said = result(cli, f"{SIZE} --gpu l40s --price-file {path}")
    assert "has no price of l40s" in said


def test_the_list_of_machines(cli: Cli) -> None:
    ran = cli("gpus --machines --match", "aws h100-sxm")
    assert ran.code == 0
    assert "p5.48xlarge" in ran.out
    assert "a3-highgpu" not in ran.out
    for line in ("gpus h100-sxm --machines", "gpus --machines --match nowhere", "gpus --export h100-sxm --json"):
        assert cli(line).code == 2
    one = cli("gpus p5.48xlarge")
    assert "55.04 USD/h" in one.out
    assert "reserved" in one.out


def test_exports_a_spec_that_every_command_takes(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert cli(f"gpus -o {path} --export", "rtx 4070").code == 0
    assert cli(f"{SIZE} --gpu {path}").json["inputs"]["gpu"] == "rtx4070"
