"""The tables of flags, one an engine's command line: `engines/*.toml` and, for what is not used, `*_unused.toml`."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

COMMAND_LINES = ("vllm", "sglang", "trtllm", "llamacpp", "llamabench")
Arity = Literal["none", "one", "some", "maybe"]  # values behind it
Use = Literal["used", "ignored", "not modelled"]
_ARITIES: Mapping[str, Arity] = {"switches": "none", "values": "one", "lists": "some", "optional": "maybe"}
_FOLDER = Path(__file__).with_name("engines")


class Flag(NamedTuple):
    """One flag of an engine."""

    names: tuple[str, ...]
    arity: Arity
    use: Use
    setting: str = ""  # used: what it sets
    words: Mapping[str, str] = {}  # used: kvcalc's word for a value → the engine's
    reads: str = ""  # used: how its value is written
    off: tuple[str, ...] = ()  # spellings that turn a switch off
    changes: str = ""  # not modelled: memory, the time of a step, which requests run
    since: str | None = None
    until: str | None = None
    prints: bool = True
    gone: bool = False  # older versions had it
    default: str | None = None  # of one that is not modelled: a value that changes nothing

    @property
    def name(self) -> str:
        return self.names[0]


class CommandLine(NamedTuple):
    """How an engine's command line is spelled."""

    id: str
    engine: str
    about: Mapping[str, Any]
    flags: tuple[Flag, ...]

    @property
    def programs(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(program.split()) for program in self.about["programs"])

    def allows(self, habit: str) -> bool:
        return bool(self.about.get(habit, False))


@cache
def command_line(name: str) -> CommandLine:
    """The table of used flags: enough to print a command."""
    with open(_FOLDER / f"{name}.toml", "rb") as file:
        about = tomllib.load(file)
    flags = tuple(_used(row) for row in about.pop("flag"))
    return CommandLine(id=name, engine=about["engine"], about=about, flags=flags)


def sets(engine: str, setting: str) -> bool:
    """Whether an engine's command line can set this.

    >>> sets("vllm", "num_gpu_blocks_override"), sets("ideal", "num_gpu_blocks_override")
    (True, False)
    """
    return engine in COMMAND_LINES and any(flag.setting == setting for flag in command_line(engine).flags)


def pools_of(engine: str) -> Mapping[str, Any]:
    """How servers are told which of two pools they are in; empty where an engine hands no cache to another server.

    >>> pools_of("sglang")["decode"], dict(pools_of("llamacpp"))
    (['--disaggregation-mode', 'decode'], {})
    """
    found: Mapping[str, Any] = command_line(engine).about.get("pools", {}) if engine in COMMAND_LINES else {}
    return found


@cache
def whole(name: str) -> CommandLine:
    """With the flags that are understood but not used: what reading a command needs."""
    line = command_line(name)
    with open(_FOLDER / f"{name}_unused.toml", "rb") as file:
        data = tomllib.load(file)
    defaults = data.get("defaults", {})
    unused = [
        Flag(
            names=tuple(names.split()),
            arity=arity,
            use="ignored" if kind == "ignored" else "not modelled",
            changes=row.get("changes", ""),
            gone=row.get("gone", False),
            default=defaults.get(names.split()[0]),
        )
        for kind in ("ignored", "not_modelled")
        for row in data.get(kind, ())
        for key, arity in _ARITIES.items()
        for names in row.get(key, ())
    ]
    return line._replace(flags=(*line.flags, *unused))


def _used(row: dict[str, Any]) -> Flag:
    arity: Arity = "none" if row["reads"] in ("on", "off") else "maybe" if row["reads"] == "maybe" else "one"
    extra = (row[key] for key in ("key", "variable") if key in row)
    return Flag(
        names=(*row.get("names", ()), *extra),
        arity=arity,
        use="used",
        setting=row["setting"],
        words=row.get("words", {}),
        reads=row["reads"],
        off=tuple(row.get("off", ())),
        since=row.get("since"),
        until=row.get("until"),
        prints=row.get("prints", "names" in row),
    )


@cache
def index(name: str) -> Mapping[str, Flag]:
    """Every spelling of every flag; a used one wins over one that is not."""
    found: dict[str, Flag] = {}
    for flag in whole(name).flags:
        for spelling in (*flag.names, *flag.off):
            found.setdefault(spelling, flag)
    return found
