"""budget.toml → Budget. Strict: a file that says less than it seems to say must never pass by accident."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvcalc.catalog.files.toml import read_toml
from kvcalc.catalog.names import did_you_mean
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import field_names, replace
from kvcalc.specs.budget import SCHEMA, SIMULATED, Budget, Entry, Limits
from kvcalc.specs.checked import OTHER_NAMES, field_types, fitting, flag_of, read_from_text
from kvcalc.specs.deployment import SETTLED, Deployment
from kvcalc.specs.load import Workload

if TYPE_CHECKING:
    from kvcalc.catalog.serve.served import Served

# A Hub id without a revision may mean another model tomorrow.
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+\Z", re.ASCII)
_TABLE = re.compile(r"\s*\[\[\s*deployment\s*\]\]")
_LIMIT = re.compile(r"\s*\[\s*deployment\s*\.\s*limit\s*\]")
_KEY = re.compile(r"\s*(limit\s*\.\s*)?\"?([\w-]+)\"?\s*=")
_OWN_KEYS = ("name", "model", "serve", "gpu", "limit")
_TARGETS = ("ttft_s", "tpot_s")  # in a budget they are limits
# A number in the file is no version: 0.10 would be read as 0.1.
NUMERIC = read_from_text(Deployment) | read_from_text(Workload)
LIMIT_KEYS = tuple(name.replace("_", "-") for name in field_names(Limits))


def flag_fields() -> dict[str, str]:
    """Every flag that a file may set, without its dashes, and the field it fills."""
    said = (name for name in field_names(Deployment) if name not in SETTLED)
    names = {*said, *(name for name in field_names(Workload) if name not in _TARGETS)}
    short = {text: name for text, name in OTHER_NAMES.items() if name in names}
    return {flag_of(name)[2:]: name for name in names} | short | {"strict": "strict"}


def read_budget(path: Path, strict: bool = False) -> Budget:
    """The deployments and limits of a file, or a KvcalcError that says what is wrong and where.

    Args:
        path: of the file.
        strict: as if every deployment said `strict = true`.
    """
    where = str(path)
    if not path.exists():
        raise KvcalcError(f"there is no {where[:200]}", hint="name the budget's file; `kvcalc check --help` shows one")
    data = read_toml(path, "budget")
    _known(data, ("schema", "strict", "judge", "defaults", "deployment"), where)
    if data.get("schema") != SCHEMA:
        said = f"the schema is {data['schema']!r}" if "schema" in data else "no schema is named"
        raise KvcalcError(f"{where}: {said}", hint=f'begin the file with schema = "{SCHEMA}"')
    defaults = data.get("defaults", {})
    tables = data.get("deployment", [])
    if not isinstance(defaults, dict) or not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise KvcalcError(f"{where}: not in the form of a budget", hint="use [defaults] and [[deployment]] tables")
    if not tables:
        raise KvcalcError(f"{where}: no deployments", hint="add a [[deployment]] with a model, a gpu and limits")
    gpu = {"gpu": defaults.pop("gpu")} if "gpu" in defaults else {}
    own = {"strict": data["strict"]} if "strict" in data else {}
    shared = _flags(own | defaults, f"{where}: defaults") | ({"strict": True} if strict else {})
    judge = {"judge": data["judge"]} if "judge" in data else {}
    places = limit_lines(path.read_text(encoding="utf-8").splitlines())
    entries = tuple(
        replace(_entry(gpu | table, shared, where, i, judge), **places[i - 1] if i <= len(places) else {})
        for i, table in enumerate(tables, start=1)
    )
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise KvcalcError(f"{where}: two deployments are named {name!r}", hint="give each its own name")
    return Budget(path=where, entries=entries)


def limit_lines(text: Iterable[str]) -> list[dict[str, Any]]:
    """Where each deployment's table begins, and on which line each of its limits stands, for messages that point there.

    >>> limit_lines(["[[deployment]]", 'name = "chat"', "[deployment.limit]", "fits = true"])
    [{'line': 1, 'lines': {'fits': 4}}]
    """
    found: list[dict[str, Any]] = []
    within = False
    for number, line in enumerate(text, start=1):
        if _TABLE.match(line):
            found.append({"line": number, "lines": {}})
        if line.lstrip().startswith("["):
            within = _LIMIT.match(line) is not None
        match = _KEY.match(line)
        if match is None or not found:
            continue
        key = match[2] if within or match[1] else ""
        if key in LIMIT_KEYS:
            found[-1]["lines"].setdefault(key, number)
    return found


def _known(table: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            if f"max-{key}" in LIMIT_KEYS:
                raise KvcalcError(f"{where}: {key} is a limit", hint=f"write max-{key} under [deployment.limit]")
            listing = "known here: " + ", ".join(keys)
            raise KvcalcError(f"{where}: unknown key {key!r}", hint=did_you_mean(key, keys, listing))


def _flags(table: dict[str, Any], where: str) -> dict[str, Any]:
    fields = flag_fields()
    _known(table, tuple(fields), where)
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict | list):
            raise KvcalcError(f"{where}: {key} must be one value", hint="write it as the flag takes it")
        if key == "strict" and not isinstance(value, bool):
            raise KvcalcError(f"{where}: strict is {value!r}", hint="write strict = true, or leave it out")
        if fields[key] in found:
            raise KvcalcError(f"{where}: {key} is given twice, by two names", hint="leave one of them out")
        found[fields[key]] = _as_typed(value) if fields[key] in NUMERIC else value
    return found


def _as_typed(value: object) -> object:
    """A number is read as the flag would read it, so that one without its unit is refused here too."""
    return value if isinstance(value, bool) else str(value)


def _entry(table: dict[str, Any], shared: dict[str, Any], path: str, number: int, judge: dict[str, Any]) -> Entry:
    name = table.get("name", f"deployment {number}")
    where = f"{path}: deployment {number} ({name})" if "name" in table else f"{path}: deployment {number}"
    served = _served(table["serve"], where) if "serve" in table else None
    model = table.get("model", served.model if served else None)
    for key, value in {"name": name, "model": model, "gpu": table.get("gpu")}.items():
        if not isinstance(value, str) or not value.strip():
            raise KvcalcError(f"{where}: no {key}", hint=f'add {key} = "..."')
    _known(table, (*_OWN_KEYS, *flag_fields()), where)
    model = str(model)
    if _HUB_ID.match(model) and not Path(model).exists():
        raise KvcalcError(
            f"{where}: {model} has no revision", hint=f"write {model}@<commit>, so that the answer cannot change unseen"
        )
    own = _flags({key: value for key, value in table.items() if key not in _OWN_KEYS}, where)
    if served is not None:  # a command says more of its deployment than what the file takes for all
        shared = {name: value for name, value in shared.items() if name not in {"engine", *served.fields}}
        own |= {"serve": table["serve"]}
    limits = _limits(table.get("limit"), where, judge)
    priced = {"price_usd_per_hour", "price_file"} & (shared | own).keys()
    for limit in ("max-usd-per-mtok", "max-usd-per-month"):
        if limit in limits.given and not priced:
            raise KvcalcError(f"{where}: {limit} without a price", hint="add price = <USD per GPU-hour>")
    return Entry(name=name, model=model, gpu=table["gpu"], flags=shared | own, limits=limits, place=where)


def _served(command: object, where: str) -> "Served":
    """What a deployment's pasted command says."""
    from kvcalc.catalog.serve.served import read_command

    if not isinstance(command, str):
        raise KvcalcError(f"{where}: serve must be one command", hint='write serve = "vllm serve MODEL ..."')
    try:
        return read_command(command)
    except KvcalcError as error:
        raise KvcalcError(f"{where}: {error.message.removeprefix('--serve: ')}", hint=error.hint) from error


def _limits(table: object, where: str, judge: dict[str, Any]) -> Limits:
    if not isinstance(table, dict):
        raise KvcalcError(f"{where}: no limits", hint="add a [deployment.limit] table, such as fits = true")
    _known(table, LIMIT_KEYS, f"{where}, limit")
    types, found = field_types(Limits), {}
    for key, value in (judge | table).items():
        name = key.replace("-", "_")
        try:
            found[name] = fitting(types[name], value)
        except ValueError as error:
            raise KvcalcError(f"{where}: limit {key}: {error}", hint="fix the value") from None
    limits = Limits(**found)
    lone = [key for key in table if key in ("percentile", "seed", "request-rate")]
    if lone and not limits.given.keys() & set(SIMULATED):
        said = f"{lone[0]} changes nothing without a simulated limit"
        raise KvcalcError(f"{where}: {said}", hint=f"add one of {', '.join(SIMULATED)}, or leave {lone[0]} out")
    if not limits.given:
        raise KvcalcError(f"{where}: no limits", hint="set at least one, such as fits = true")
    return limits
