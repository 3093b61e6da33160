"""Help in groups: the commands by the question, a command's flags by what they are about."""

from typing import Any

import typer.core

from kvcalc.cli.app import GROUPS

# The order of a page's groups: what is asked, how it is served, what comes out. Others stand where they first appear.
_FIRST = ("Where", "Workload", "Requests", "Load", "Targets", "Choice", "Draft", "Acceptance", "Prefill", "Layout")
_LAST = ("Engine", "llama.cpp", "Numbers", "Memory", "Cost", "Scheduler", "Output", "Options")


class GroupedCommand(typer.core.TyperCommand):
    """A command whose help has its flags in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The arguments, then every group of flags."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                groups.setdefault("Arguments", []).append((record[0].partition(" <")[0], record[1]))
            else:
                groups.setdefault(getattr(parameter, "rich_help_panel", None) or "Options", []).append(record)
        for title in sorted(groups, key=_place):
            with formatter.section(title):
                formatter.write_dl(groups[title])


def _place(title: str) -> int:
    order = ("Arguments", *_FIRST, "", *_LAST)
    return order.index(title) if title in order else order.index("")


class GroupedCommands(typer.core.TyperGroup):
    """The application, whose help has its commands in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Every group with a line a command."""
        lines = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        for title, names in GROUPS.items():
            shown = [(name, str(one.short_help)) for name in names if (one := lines.get(name)) is not None]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)
