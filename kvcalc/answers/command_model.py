"""Which model a pasted command serves, as kvcalc can read it: its own, one given beside it, or the card that a file
which is not here is named after. What the command says of its own model and the stand-in has no use for is left out.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kvcalc.catalog.cards import card_of_file
from kvcalc.catalog.models import load_model
from kvcalc.catalog.quantization.online import requantize
from kvcalc.catalog.serve.file_name import FileName, read_file_name
from kvcalc.catalog.serve.served import Served
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption
from kvcalc.specs.formats import PLAIN
from kvcalc.specs.model import MoeMlp

BESIDE = "give a MODEL beside --serve"


class CommandModel(NamedTuple):
    """The model's name here, what its file's name sets, which fields it has no use for, and what is said of that."""

    name: str
    fields: Mapping[str, Any]
    unsuited: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...] = ()


def command_model(served: Served, given: str | None, asked: Mapping[str, Any]) -> CommandModel:
    """The model of a command.

    Args:
        served: the command.
        given: a MODEL beside it.
        asked: fields given beside it; they win over what a file's name says.

    Raises KvcalcError where there is none, or its file is not here and its name tells nothing.
    """
    beside = (None if given == served.model else given) or served.noted_model
    if beside is not None:
        fields, said = _stored_as(served, beside, asked)
        unsuited = _unsuited(beside, {**served.fields, **fields}, served.engine)
        left = tuple(
            Assumption(name=name, value=None, why=f"the command's {served.typed.get(name, name)} is for {why}")
            for name, why in unsuited.items()
        )
        said = tuple(one for one in said if one.name not in unsuited)
        return CommandModel(beside, fields, tuple(unsuited), (*said, *left))
    if served.model is None:
        raise KvcalcError("--serve: the command names no model", hint=BESIDE)
    if _is_here(served.model):
        return CommandModel(served.model, {}, (), ())
    return _named_after(served, served.model, asked)


def _is_here(model: str) -> bool:
    """Whether a model can be looked for as it is named: no path, or one that exists."""
    path = model.startswith(("/", "./", "../", "~", "C:")) or "\\" in model or model.lower().endswith(".gguf")
    return not path or Path(model).expanduser().exists()


def _named_after(served: Served, path: str, asked: Mapping[str, Any]) -> CommandModel:
    """The card whose name the file or the folder has."""
    in_file = rules(served.engine).WEIGHTS_AS_IN_FILE
    name = read_file_name(path).model if in_file else path.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
    card = card_of_file(name)
    if card is None:
        raise KvcalcError(f"--serve: the command's model {path[:100]} is not on this machine", hint=BESIDE)
    why = f"{path[:100]} is not on this machine: taken for the card that it is named after"
    fields, said = _stored_as(served, card.name, asked)
    taken = Assumption(name="model", value=card.name, why=why)
    return CommandModel(card.name, fields, (), (taken, *said), (f"--serve: {why}, {card.name}",))


def _stored_as(served: Served, model: str, asked: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Assumption, ...]]:
    """How the weights of the command's file are stored, by its name, where the engine takes them from the file."""
    known = {**served.fields, **asked}
    if served.model is None or "quantization" in known or not rules(served.engine).WEIGHTS_AS_IN_FILE:
        return {}, ()
    file: FileName = read_file_name(served.model)
    if file.quantization is None or _dtype(file.quantization) == load_model(model).dtype:
        return {}, ()
    why = "by the name of the command's file"
    if file.near:
        why = f"{file.near} has no public recipe: its plain type is taken; -q beside --serve changes it"
    elif not served.model.lower().endswith(".gguf") and ":" not in served.model:
        why = "what llama.cpp takes of a repository where nothing is said"
    return {"quantization": file.quantization}, (Assumption(name="quantization", value=file.quantization, why=why),)


def _dtype(name: str) -> str | None:
    """An element type by its name in files."""
    plain = {"f16": "fp16", "f32": "fp32"}.get(name.lower(), name.lower())
    return plain if plain in PLAIN else None


def _unsuited(model: str, fields: Mapping[str, Any], engine: str) -> dict[str, str]:
    """Settings that the command's own model has a use for and its stand-in has not, each with the reason."""
    names = {"enable_expert_parallel", "num_redundant_experts", "quantization"} & fields.keys()
    if not names:
        return {}
    spec = load_model(model)
    found: dict[str, str] = {}
    if not any(isinstance(group.mlp, MoeMlp) for group in spec.groups):
        found |= dict.fromkeys(names - {"quantization"}, f"its own model: {spec.name} has no experts")
    if "quantization" in names:
        try:
            requantize(spec, str(fields["quantization"]), rules(engine).QUANTIZATIONS, engine)
        except KvcalcError:
            found["quantization"] = f"its own model: {spec.name} is taken as it is stored"
    return found
