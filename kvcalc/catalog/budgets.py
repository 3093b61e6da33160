"""budget.toml → Budget. Strict: a file that says less than it seems to say must never pass by accident."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvcalc.catalog.files.toml import read_toml
from kvcalc.catalog.names import did_you_mean
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import field_names, replace
from kvcalc.specs.budget import SCHEMA, Budget, Entry, Limits
from kvcalc.specs.checked import OTHER_NAMES, field_types, fitting, flag_of, read_from_text
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.load import Workload

if TYPE_CHECKING:
    from kvcalc.catalog.serve.served import Served

# A Hub id without a revision may mean another model tomorrow.
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+\Z", re.ASCII)
_TABLE = re.compile(r"\s*\[\[\s*deployment\s*\]\]")
_OWN_KEYS = ("name", "model", "serve", "gpu", "limit")
_TARGETS = ("ttft_s", "tpot_s")  # in a budget they are limits
_WORKED_OUT = ("attention_settled", "raw_latents", "draft_unread")  # fields of a deployment that are no flags
# A number in the file is no version: 0.10 would be read as 0.1.
NUMERIC = read_from_text(Deployment) | read_from_text(Workload)
LIMIT_KEYS = tuple(name.replace("_", "-") for name in field_names(Limits))


def flag_fields() -> dict[str, str]:
    """Every flag that a file may set, without its dashes, and the field it fills."""
    said = (name for name in field_names(Deployment) if name not in _WORKED_OUT)
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
    data = read_toml(path, "budget")
    _known(data, ("schema", "defaults", "deployment"), where)
    if data.get("schema") != SCHEMA:
        raise KvcalcError(f"{where}: schema is {data.get('schema')!r}", hint=f'begin the file with schema = "{SCHEMA}"')
    defaults = data.get("defaults", {})
    tables = data.get("deployment", [])
    if not isinstance(defaults, dict) or not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise KvcalcError(f"{where}: not in the form of a budget", hint="use [defaults] and [[deployment]] tables")
    if not tables:
        raise KvcalcError(f"{where}: no deployments", hint="add a [[deployment]] with a model, a gpu and limits")
    gpu = {"gpu": defaults.pop("gpu")} if "gpu" in defaults else {}
    shared = _flags(defaults, f"{where}: defaults") | ({"strict": True} if strict else {})
    starts = _table_lines(path)
    entries = tuple(
        replace(_entry(gpu | table, shared, where, i), line=starts[i - 1] if i <= len(starts) else 1)
        for i, table in enumerate(tables, start=1)
    )
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise KvcalcError(f"{where}: two deployments are named {name!r}", hint="give each its own name")
    return Budget(path=where, entries=entries)


def _table_lines(path: Path) -> list[int]:
    """The lines on which deployments begin, for messages that point at them."""
    text = path.read_text(encoding="utf-8")
    return [i for i, line in enumerate(text.splitlines(), start=1) if _TABLE.match(line)]


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


def _entry(table: dict[str, Any], shared: dict[str, Any], path: str, number: int) -> Entry:
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
    limits = _limits(table.get("limit"), where)
    if limits.max_usd_per_mtok is not None and not {"price_usd_per_hour", "price_file"} & (shared | own).keys():
        raise KvcalcError(f"{where}: max-usd-per-mtok without a price", hint="add price = <USD per GPU-hour>")
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


def _limits(table: object, where: str) -> Limits:
    if not isinstance(table, dict):
        raise KvcalcError(f"{where}: no limits", hint="add a [deployment.limit] table, such as fits = true")
    _known(table, LIMIT_KEYS, f"{where}, limit")
    types, found = field_types(Limits), {}
    for key, value in table.items():
        name = key.replace("-", "_")
        try:
            found[name] = fitting(types[name], value)
        except ValueError as error:
            raise KvcalcError(f"{where}: limit {key}: {error}", hint="fix the value") from None
    limits = Limits(**found)
    if not limits.given:
        raise KvcalcError(f"{where}: no limits", hint="set at least one, such as fits = true")
    return limits
