"""The application as Typer has it: for help, completion, mistakes, and every line that is not plain."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import typer

from kvcalc.cli.app import COMMANDS
from kvcalc.cli.help import GroupedCommand, GroupedCommands
from kvcalc.cli.words import normal

MAIN_HELP = """Capacity, speed and cost of an LLM deployment.

\b
  kvcalc size llama-3-8b --gpu h100-sxm         does it fit, how many users
  kvcalc size llama-3-8b --gpu l40s --isl 2k --osl 256    how fast, the cost
  kvcalc size meta-llama/Llama-3.1-70B --gpu h100-sxm -tp 4
  kvcalc size llama-3-8b                        which GPU, the cheapest first
  kvcalc plan llama-3-8b --gpu l40s --isl 2k --osl 300 --users 50 --tpot 40ms
  kvcalc compare llama-3-8b --gpu l40s --quantization fp8 --quantization awq

MODEL is a card's name, a Hugging Face id, a folder, a config.json, a .gguf or a TOML.
"""


def build_app(argv: Sequence[str], completing: bool) -> Callable[..., Any]:
    """The application as far as this command line needs it: one command where it begins with one, else the list."""
    wanted = next((word for word in argv if not word.startswith("-")), None)
    first = not completing and wanted in COMMANDS and argv[0] == wanted
    app = typer.Typer(
        cls=GroupedCommands,
        help=MAIN_HELP,
        add_completion=not first,
        rich_markup_mode=None,  # plain help starts twice as fast
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            "token_normalize_func": normal,
        },
    )
    app.callback()(_root)
    for name, line in COMMANDS.items():
        if first and name != wanted:
            continue
        function = _not_loaded
        if completing or name == wanted:
            function = import_module(f"kvcalc.cli.{name}").command.for_typer(None if completing else argv)
        app.command(name, cls=GroupedCommand, short_help=line)(function)
    return typer.main.get_command(app)


def _not_loaded() -> None:
    raise AssertionError("only the command that was asked for is called")


def _print_version(wanted: bool) -> None:
    if wanted:
        from kvcalc import __version__

        print(f"kvcalc {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", "-V", is_eager=True, callback=_print_version, help="Print the version and exit."
    ),
) -> None:
    """The flags of `kvcalc` itself."""
