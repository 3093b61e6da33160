"""What the shell offers: a value for every flag that takes one of some words or names."""

import os
import subprocess
import sys
from importlib import import_module

import pytest

from kvcalc.cli.app import COMMANDS
from kvcalc.cli.complete import offer_for
from kvcalc.cli.flags import Flag

FLAGS: dict[str, Flag] = {
    flag.field: flag for command in COMMANDS for flag in import_module(f"kvcalc.cli.{command}").command.flags
}
OF_WORDS = {"NAME", "TYPE", "SCHEME", "KIND", "GPU", "MODEL", "WHEN", "FORM", "END"}


@pytest.mark.parametrize("field", sorted(name for name, flag in FLAGS.items() if flag.metavar in OF_WORDS))
def test_every_flag_of_words_offers_some(field: str) -> None:
    assert offer_for(field)("")


@pytest.mark.parametrize(
    "field", sorted(name for name, flag in FLAGS.items() if flag.metavar in ("N", "TOKENS", "USD"))
)
def test_numbers_offer_nothing(field: str) -> None:
    assert offer_for(field)("") == []


@pytest.mark.parametrize(
    "field, begun, offered",
    [
        ("gpu", "p5.48", ["p5.48xlarge"]),
        ("quantization", "q4_k", ["q4_k_s", "q4_k_m", "q4_k_l"]),
        ("host_memory_bandwidth", "ddr4-3", ["ddr4-3200"]),
        ("backend", "", ["cuda", "hip", "vulkan", "metal", "sycl"]),
        ("cache_type_k", "q8", ["q8_0"]),
        ("emit", "k", ["k8s"]),
        ("routing", "r", ["round-robin"]),
        ("device", "c", ["cpu", "cuda"]),
        ("format", "m", ["md"]),
    ],
)
def test_what_is_offered(field: str, begun: str, offered: list[str]) -> None:
    assert sorted(offer_for(field)(begun)) == sorted(offered)


@pytest.mark.parametrize(
    "shell, environment",
    [
        ("bash", {"COMP_WORDS": "kvcalc size llama-3-8b --backend v", "COMP_CWORD": "4"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "kvcalc size llama-3-8b --backend v"}),
        (
            "fish",
            {"_TYPER_COMPLETE_ARGS": "kvcalc size llama-3-8b --backend v", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        ),
    ],
)
def test_through_the_shell_s_own_protocol(shell: str, environment: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "kvcalc"],
        env={**os.environ, "_KVCALC_COMPLETE": f"complete_{shell}", **environment},
        capture_output=True,
        text=True,
    )
    assert "vulkan" in ran.stdout
    assert "cuda" not in ran.stdout
