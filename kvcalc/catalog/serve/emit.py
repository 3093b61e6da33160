"""A deployment → the command line that starts it, by the same tables that read one."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.catalog.serve.table import CommandLine, Flag, command_line
from kvcalc.catalog.serve.wording import GIB_FIELDS, OWN_DRAFTER, WORDINGS, Settings, given_fields
from kvcalc.specs.deployment import SETTLED, Deployment
from kvcalc.units import GIB

# Fields that are no setting of an engine: they say what a GPU costs or where it stands.
NO_SETTING = frozenset(
    {"price_usd_per_hour", "price_file", "pricing", "gpus_per_node", "offline", "draft", "acceptance", *SETTLED}
)


class Command(NamedTuple):
    """A command as its words; `unsaid` are fields of the deployment that the engine's command line cannot set."""

    engine: str
    version: str | None
    model: str
    program: tuple[str, ...]
    arguments: tuple[str, ...]  # without the model
    model_words: tuple[str, ...]
    unsaid: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.program, *self.model_words, *self.arguments)

    @property
    def line(self) -> str:
        """As a shell takes it."""
        return shlex.join(self.words)


def command_of(
    model: str, deployment: Deployment, own_drafter: bool = False, automatic: bool = False
) -> Command | None:
    """The command that starts a deployment; None for `ideal`, which is no engine.

    Args:
        model: a Hub id or a path, as the engine will find it.
        deployment: what it says is printed; what it leaves to the engine is left to it.
        own_drafter: the model has layers that draft (MTP).
        automatic: sequences may be as long as the memory allows.

    >>> command_of("Qwen/Qwen3-8B", Deployment(tensor_parallel_size=2, kv_cache_dtype="fp8")).line
    'vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --kv-cache-dtype fp8'
    """
    if deployment.engine not in WORDINGS:
        return None
    line, version = command_line(deployment.engine), deployment.engine_version
    model, _, revision = model.partition("@")
    given = given_fields(deployment)
    for name in GIB_FIELDS:
        if name in given:
            given[name] = given[name] / GIB
    words = (_printed({"revision": revision}, line, version) if revision else None) or {}
    said: set[str] = set()
    unfitted = automatic and not _fits_length(line, version)
    given |= {"max_model_len": "auto"} if automatic and not unfitted else {}
    for fields, ways in WORDINGS[deployment.engine](given | {OWN_DRAFTER: own_drafter}):
        printed = next((found for way in ways if (found := _printed(way, line, version)) is not None), None)
        if printed is not None:
            said |= set(fields)
            words |= printed
    return Command(
        engine=deployment.engine,
        version=version,
        model=model,
        program=tuple(line.about["prints_program"].split()),
        arguments=tuple(word for name in _order(line) for word in words.get(name, ())),
        model_words=(model,)
        if line.about.get("positional") and not line.allows("names_model")
        else _named(line, model),
        unsaid=(*(name for name in given if name not in said), *(("max_model_len",) if unfitted else ())),
    )


def _named(line: CommandLine, model: str) -> tuple[str, ...]:
    setting = "repository" if re.fullmatch(r"[\w.-]+/[\w.-]+:[\w.-]+", model) else "model"
    flag = next((flag for flag in line.flags if flag.setting == setting), None)
    flag = flag or next(flag for flag in line.flags if flag.setting == "model")
    return (flag.name, model)


def _fits_length(line: CommandLine, version: str | None) -> bool:
    """Whether the engine itself finds the longest sequence that the memory holds."""
    since = line.about.get("auto_length")
    return since is not None and (version is None or _numbers(version) >= _numbers(since))


def _order(line: CommandLine) -> list[str]:
    return list(dict.fromkeys(flag.name for flag in line.flags))


def _printed(settings: Settings, line: CommandLine, version: str | None) -> dict[str, list[str]] | None:
    """The words of each flag that says these settings; None where one of them cannot be said."""
    found: dict[str, list[str]] = {}
    objects: dict[str, dict[str, object]] = {}
    for name, value in settings.items():
        flag = _flag(name, line, version)
        if flag is None:
            return None
        if flag.reads == "object":
            objects.setdefault(flag.name, {})[name.partition(".")[2]] = _json(value)
            found[flag.name] = [flag.name, json.dumps(objects[flag.name])]
            continue
        words = _words(flag, value, line, version)
        if words is None:
            return None
        found[flag.name] = words
    return found


def _flag(setting: str, line: CommandLine, version: str | None) -> Flag | None:
    for flag in line.flags:
        whole = flag.setting == setting or (flag.reads == "object" and setting.startswith(flag.setting + "."))
        if whole and (flag.prints or _is_key(flag)) and _has(flag, version):
            return flag
    return None


def _has(flag: Flag, version: str | None) -> bool:
    """Whether a version has a flag; None: the newest."""
    if version is None:
        return flag.until is None
    here = _numbers(version)
    old = flag.since is not None and here < _numbers(flag.since)
    return not old and (flag.until is None or here[:2] <= _numbers(flag.until)[:2])


def _numbers(version: str) -> tuple[int, ...]:
    """
    >>> _numbers("0.10.2rc1"), _numbers("b6000")
    ((0, 10, 2), (6000,))
    """
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _is_key(flag: Flag) -> bool:
    return not flag.name.startswith("-")


def _words(flag: Flag, value: str | bool, line: CommandLine, version: str | None) -> list[str] | None:
    if isinstance(value, bool):
        if _is_key(flag):
            return _set(flag, str(value).lower(), line, version)
        if value == (flag.reads == "on"):
            return [flag.name]
        if flag.off:
            return [flag.off[-1]]
        return ["--no-" + flag.name.removeprefix("--")] if line.allows("no_forms") else None
    if flag.words and value not in flag.words and value not in flag.words.values():
        return None
    text = flag.words.get(value, value)
    if flag.reads == "count" and not text.lstrip("-").isdecimal():
        return None
    return _set(flag, text, line, version) if _is_key(flag) else [flag.name, text]


def _set(flag: Flag, text: str, line: CommandLine, version: str | None) -> list[str] | None:
    """A key that has no flag of its own, with the flag that sets keys."""
    setter = next((one for one in line.flags if one.reads == "path"), None)
    return [setter.name, f"{flag.name}={text}"] if setter is not None and _has(setter, version) else None


def _json(value: str | bool) -> object:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def unsaid_flags(command: Command, flags: Mapping[str, str]) -> tuple[str, ...]:
    """What a reader must know that the command leaves out: settings, not prices."""
    return tuple(flags.get(name, name) for name in command.unsaid if name not in NO_SETTING)
