"""A pasted command → flags: which it sets, which change nothing, which are not modelled, which do not exist."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvcalc.catalog.serve.meaning import MEANINGS
from kvcalc.catalog.serve.note import Note, noted
from kvcalc.catalog.serve.program import Call, find_call
from kvcalc.catalog.serve.table import CommandLine, Flag, index, whole
from kvcalc.catalog.serve.values import Value, flattened, settings_of
from kvcalc.catalog.serve.variables import put_in, unresolved
from kvcalc.catalog.serve.words import Given, Positional, flags_in
from kvcalc.errors import KvcalcError

_MODEL = ("model", "revision", "repository", "repository_file")
_LARGEST_FILE = 1_000_000
_MORE = re.compile(r"\$(?:[@*]|\{[@*]\}|\{?[A-Za-z_]\w*(?:\[[@*]\])?\}?)")  # "$@", $EXTRA_ARGS, ${ARGS[@]}


@dataclass(frozen=True, kw_only=True)
class Served:
    """A command line as kvcalc understands it."""

    engine: str
    version: str | None  # of the container's image
    model: str | None
    noted_model: str | None  # how kvcalc finds it, of a command that kvcalc printed
    models: tuple[str, ...]  # llama-bench may name several
    fields: Mapping[str, Value]  # by name, values as kvcalc's own flags take them
    typed: Mapping[str, str]  # field → the flag that set it
    speculation: Mapping[str, Any] | None
    share_of: str | None  # what gpu_memory_utilization is a share of
    unresolved: Mapping[str, tuple[str, tuple[str, ...]]]  # setting → the flag and its variables
    ignored: tuple[str, ...]
    not_modelled: tuple[tuple[str, str], ...]  # the flag, and what it changes
    unknown: tuple[tuple[str, str | None], ...]  # the flag, and the nearest that exists
    gone: tuple[str, ...]  # flags of older versions
    unread_files: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(kw_only=True)
class _Sorting:
    """Flags on their way into their classes."""

    line: CommandLine
    settings: dict[str, Value] = field(default_factory=dict)
    many: dict[str, list[str]] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    unresolved: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    not_modelled: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[tuple[str, str | None]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    unread_files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_command(text: str, engine: str | None = None, folder: Path = Path()) -> Served:
    """What a pasted command says.

    Args:
        text: the command with whatever stands around it, a compose file, a manifest, or arguments alone.
        engine: whose arguments they are, where the text does not say.
        folder: where the files that the command names are looked for.

    Raises KvcalcError where no engine's command is found, or a value is not of its kind.

    >>> served = read_command("vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 8k --port 80 --seed 1")
    >>> served.model, dict(served.fields), served.ignored
    ('Qwen/Qwen3-8B', {'tensor_parallel_size': '2', 'max_model_len': '8k'}, ('--port', '--seed'))
    """
    call = find_call(text, engine)
    line = whole(call.line)
    sorting = _Sorting(line=line)
    _environment(sorting, call.environment)
    files = _words(sorting, call)
    for path in files:
        _file(sorting, path, folder)
    if call.others:
        sorting.notes.append(f"--serve: {call.others + 1} servers are started in the text; the first is taken")
    return _result(sorting, call, noted(text))


def _words(sorting: _Sorting, call: Call) -> list[str]:
    """Sorts the arguments; returns the files that they name."""
    files: list[str] = []
    positional = sorting.line.about.get("positional")
    for given in flags_in(call.words, sorting.line):
        if isinstance(given, Positional):
            if positional and "model" not in sorting.settings and given.word not in ("$@", "$*"):
                _set(sorting, "model", given.word, "MODEL", unresolved(given.word))
            elif _MORE.fullmatch(given.word):
                sorting.notes.append(f"--serve: {given.word} may hold more flags, which are not in the text")
            else:
                sorting.unknown.append((given.word, None))
        elif given.flag is None:
            sorting.unknown.append((given.typed, given.nearest))
        elif given.flag.reads == "file":
            files.append(given.value)
        elif given.flag.reads == "path":
            name, _, value = given.value.partition("=")
            _key(sorting, name, value, given.typed)
        else:
            _sort(sorting, given, given.flag)
    return files


def _sort(sorting: _Sorting, given: Given, flag: Flag) -> None:
    if flag.gone:
        sorting.gone.append(given.typed)
    if flag.use == "ignored" or (flag.default is not None and flag.default == given.value.lower()):
        sorting.ignored.append(given.typed)
    elif flag.use == "not modelled":
        sorting.not_modelled.append((given.typed, flag.changes))
    elif not given.values:
        raise KvcalcError(f"--serve: {given.typed} has no value", hint="paste the whole command")
    elif sorting.line.allows("many"):
        values = [value for text in given.values for value in text.split(",")]
        sorting.many.setdefault(flag.setting, []).extend(values)
        sorting.typed[flag.setting] = given.typed
    else:
        _take(sorting, given, flag)


def _take(sorting: _Sorting, given: Given, flag: Flag) -> None:
    missing = unresolved(given.value)
    if missing:
        _set(sorting, flag.setting, given.value, given.typed, missing)
        return
    text = next((ours for ours, theirs in flag.words.items() if theirs == given.value), given.value)
    for name, value in settings_of(flag.setting, flag.reads, text, given.typed, given.path):
        _set(sorting, name, value, given.typed, unresolved(value) if isinstance(value, str) else [])


def _set(sorting: _Sorting, name: str, value: Value, typed: str, missing: Sequence[str]) -> None:
    sorting.settings[name] = value
    sorting.typed[name] = typed
    sorting.unresolved.pop(name, None)
    if missing:
        sorting.unresolved[name] = (typed, tuple(missing))


def _environment(sorting: _Sorting, variables: Mapping[str, str]) -> None:
    """Variables that the engine reads; a flag of the command line wins over them."""
    known = index(sorting.line.id)
    for name, value in variables.items():
        flag = known.get(name)
        if flag is None or name.startswith("-"):
            continue
        _sort(sorting, Given(name, flag, (put_in(value, variables),)), flag)


def _file(sorting: _Sorting, path: str, folder: Path) -> None:
    """A YAML file of settings, if it can be read; whether it wins over the flags is the engine's."""
    import yaml

    try:
        if unresolved(path) or (folder / path).stat().st_size > _LARGEST_FILE:
            raise OSError
        data = yaml.safe_load((folder / path).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        sorting.unread_files.append(path)
        return
    if not isinstance(data, dict):
        sorting.unread_files.append(path)
        return
    if sorting.line.allows("file_wins"):
        for name, value in flattened(data, ""):
            _key(sorting, name, value, name)
        return
    given = dict(sorting.settings)
    words = tuple(_as_words(data))
    _words(sorting, Call(sorting.line.id, "", words, {}))
    sorting.settings.update(given)


def _as_words(data: Mapping[str, Any]) -> Iterator[str]:
    """vLLM's and SGLang's files: keys are flags without their dashes."""
    import json

    for key, value in data.items():
        if value is None or value is False:
            continue
        yield f"--{key}"
        if isinstance(value, list):
            yield from map(str, value)
        elif value is not True:
            yield json.dumps(value) if isinstance(value, dict) else str(value)


def _key(sorting: _Sorting, name: str, value: Value, typed: str) -> None:
    """A key of TensorRT-LLM's file; one whose inner names are not known counts by its outer name."""
    known = index(sorting.line.id)
    parts = name.split(".")
    beginnings = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    flag = next((known[one] for one in beginnings if one in known), None)
    if flag is None:
        sorting.unknown.append((typed, None))
    else:
        _sort(sorting, Given(typed, flag, (str(value).lower() if isinstance(value, bool) else value,)), flag)


def _result(sorting: _Sorting, call: Call, beside: Note) -> Served:
    models = tuple(sorting.many.get("model", ()))
    _one_test(sorting)
    if call.program == "llama-cli":  # one sequence, no slots
        sorting.settings.setdefault("parallel", "1")
    meaning = MEANINGS[sorting.line.engine](sorting.settings)
    fields = dict(meaning.fields)
    revision = fields.pop("revision", None)
    model = fields.pop("model", None)
    if model is not None and revision and "@" not in str(model):
        model = f"{model}@{revision}"
    return Served(
        engine=sorting.line.engine,
        version=beside.fields.get("engine_version", call.version),
        model=None if model is None else str(model),
        noted_model=beside.model,
        models=models or ((str(model),) if model is not None else ()),
        fields=fields | {name: value for name, value in beside.fields.items() if name != "engine_version"},
        typed=_origins(sorting.typed, fields),
        speculation=meaning.speculation,
        share_of=sorting.line.about.get("share_of") if "gpu_memory_utilization" in fields else None,
        unresolved=sorting.unresolved,
        ignored=_once([*sorting.ignored, *(sorting.typed[name] for name in meaning.unread)]),
        not_modelled=tuple(dict.fromkeys(sorting.not_modelled)),
        unknown=tuple(dict.fromkeys(sorting.unknown)),
        gone=_once(sorting.gone),
        unread_files=_once(sorting.unread_files),
        notes=(*sorting.notes, *meaning.notes),
    )


def _one_test(sorting: _Sorting) -> None:
    """llama-bench runs every combination of its lists: the one that needs the most stands for them."""
    if not sorting.line.allows("many"):
        return
    bench = [name for name in sorting.many if name.startswith("bench.")]
    tests = 1
    for name, values in sorting.many.items():
        numbers = [int(value) for value in values if value.isdecimal()]
        largest = str(max(numbers)) if numbers else values[0]
        sorting.settings[name] = largest if name in bench or len(values) == 1 else values[0]
        tests *= len(values) if name not in ("bench.prompt", "bench.generated") else 1
    runs = [
        value for name in ("bench.prompt", "bench.generated") for value in sorting.many.get(name, ()) if value != "0"
    ]
    tests *= max(1, len(runs))
    if tests > 1:
        taken = ", ".join(f"{sorting.typed[name]} {sorting.settings[name]}" for name in sorting.many)
        sorting.notes.append(f"--serve: llama-bench runs {tests} tests; {taken} is taken")


def _origins(typed: Mapping[str, str], fields: Iterable[str]) -> dict[str, str]:
    """The flag of each field; of one that several make, the first."""
    parts = {
        "kv_cache_dtype": ("cache_type_k", "cache_type_v"),
        "num_speculative_tokens": ("speculation.num_speculative_tokens", "speculation.num_steps", "speculation.method"),
        "draft": ("speculation.model", "speculation.method"),
        "gpus_per_node": ("nodes",),
        "enable_expert_parallel": ("expert_parallel_size",),
        "max_loras": ("enable_lora",),
        "enforce_eager": ("optimization_level", "compilation.cudagraph_mode", "graphs"),
        "num_redundant_experts": ("eplb.num_redundant_experts",),
        "pipeline_parallel_size": ("tensor_split", "device", "visible"),
        "tensor_parallel_size": ("tensor_split", "device", "visible"),
        "ctx_size": ("bench.generated", "bench.prompt", "bench.depth"),
    }
    found = {}
    for name in fields:
        origin = next((typed[one] for one in (name, *parts.get(name, ())) if one in typed), None)
        if origin is not None:
            found[name] = origin
    return found


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
