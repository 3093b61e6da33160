"""The one way from what a user types to a ModelSpec.

In order: a card's name, a folder, a `config.json`, a `.gguf`, a `.toml` in the card's form, else a Hub id with an
optional `@revision`. Cards win over the network, so the usual models need none.
"""

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kvcalc.catalog.cards import Card, card_names, find_card, missing_card, read_card, spec_of
from kvcalc.catalog.config.read import read_config
from kvcalc.catalog.files.jsonfile import read_json
from kvcalc.catalog.names import did_you_mean
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Source, replace
from kvcalc.specs.model import ModelSpec

if TYPE_CHECKING:
    from kvcalc.catalog.headers.safetensors import Stored
    from kvcalc.catalog.hub.fetch import Repo

# owner/name as the Hub allows them, then a file inside the repository or a GGUF quantization, then a revision
_HUB_ID = (
    r"(?a)(?P<repo>[\w.-]{1,96}/[\w.-]{1,96})"
    r"(?:/(?P<file>[\w./-]+\.gguf)|:(?P<quant>[\w.-]+))?(?:@(?P<rev>[\w./-]+))?\Z"
)
_HUB_URL = r"https?://(?:huggingface|hf)\.co/(?P<repo>[\w.-]+/[\w.-]+)(?:/(?:tree|blob)/(?P<rev>[\w.-]+)(?:/.*)?)?/?\Z"
_LONGEST_NAME = 4096  # longer than any path
QUANT = "hf_quant_config.json"  # ModelOpt's own file


def load_model(name: str, revision: str | None = None, strict: bool = False) -> ModelSpec:
    """The model that `name` means.

    Args:
        name: card name, folder, config.json, .gguf, .toml, or Hub id (`owner/name`, `owner/name@revision`).
        revision: of a Hub id, when it is not in the name.
        strict: refuse a config with keys that are not understood.

    Raises:
        KvcalcError: nothing of that name, or what is there cannot be read.
    """
    model = _load(name, revision)
    return without_doubts(model) if strict else model


def without_doubts(model: ModelSpec) -> ModelSpec:
    """The model, if all that its config says was understood.

    Raises:
        KvcalcError: it was not; the keys are named.
    """
    if model.doubts:
        names = ", ".join(doubt.name for doubt in model.doubts[:6]) + ", ..." * (len(model.doubts) > 6)
        raise KvcalcError(
            f"{model.name}: not everything in its config is understood: {names}",
            hint="without --strict they are listed with the answer; a TOML card describes a model outright",
        )
    return model


def _load(name: str, revision: str | None) -> ModelSpec:
    if not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise KvcalcError(f"not a model's name: {name[:60]!r}", hint="give a card, a Hub id, a folder or a file")
    if name.startswith("http") and (url := re.match(_HUB_URL, name)):
        name, revision = url["repo"], revision or (url["rev"] if url["rev"] != "main" else None)
    if revision is None and (model := _of_card(name)):
        return model
    path = existing(name)
    if path is not None:
        return load_path(path)
    if _looks_like_path(name):
        raise KvcalcError(f"no such file or folder: {name}", hint="check the path; a Hub id has the form owner/name")
    match = re.match(_HUB_ID, name)
    if match is None:
        raise missing_card(name)
    try:
        return load_from_hub(match["repo"], revision or match["rev"], match["file"], match["quant"])
    except KvcalcError as error:
        hint = did_you_mean(match["repo"].rpartition("/")[2], card_names(), error.hint)
        raise KvcalcError(error.message, hint) from error


@cache
def _of_card(name: str) -> ModelSpec | None:
    """The model of a shipped card, once a process; None: no card is named so."""
    card = find_card(name)
    return None if card is None else load_card(card)


def existing(name: str) -> Path | None:
    """The file or folder of this name, if there is one.

    Raises:
        KvcalcError: a path that cannot be looked up.
    """
    try:
        path = Path(name).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError) as error:  # too long, a user without a home, no permission
        raise KvcalcError(f"cannot look for {name[:60]!r}: {error}"[:300], hint="check the path") from error


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or name.endswith((".json", ".toml")) or "\\" in name or name.count("/") > 3


def load_card(card: Card) -> ModelSpec:
    """The model that a card describes."""
    if card.spec is not None:
        return spec_of(card)
    assert card.config is not None
    return read_config(card.config, card.name, card.source, card.hf_quant_config)


def load_path(path: Path) -> ModelSpec:
    """The model of a folder or a file; nothing but configs and headers is read.

    Raises:
        KvcalcError: weights without a config, or several models where one was meant.
    """
    if path.is_dir():
        return _load_folder(path)
    if path.suffix == ".gguf":
        from kvcalc.catalog.headers.gguf import load_gguf

        return load_gguf(path)
    if path.suffix == ".toml":
        return load_card(read_card(path))
    if path.suffix in (".safetensors", ".bin", ".pt", ".pth"):
        raise KvcalcError(f"{path} holds weights, not a config", hint=f"give its folder: {path.parent}")
    return _load_config(path)


def _load_config(path: Path) -> ModelSpec:
    quant = path.with_name(QUANT)
    return read_config(
        read_json(path, "config"),
        path.resolve().parent.name if path.stem == "config" else path.stem,
        Source(what=str(path)),
        read_json(quant, "quantization config") if quant.is_file() else None,
    )


def _load_folder(folder: Path) -> ModelSpec:
    config = folder / "config.json"
    if config.exists():
        from kvcalc.catalog.headers.safetensors import read_folder

        return with_file(_load_config(config), read_folder(folder))
    found = sorted(folder.glob("*.gguf"))
    if len(found) == 1:
        return load_path(found[0])
    if found:
        names = ", ".join(path.name for path in found[:4])
        raise KvcalcError(f"{folder} holds {len(found)} GGUF files: {names}", hint="name one of them")
    raise KvcalcError(f"{folder} has no config.json", hint="give the folder of a downloaded model, or a file")


def load_from_hub(
    name: str, revision: str | None = None, file: str | None = None, quant: str | None = None
) -> ModelSpec:
    """The model of a Hub repository.

    Args:
        name: owner/name.
        revision: branch, tag or commit; None: main.
        file: a .gguf inside the repository.
        quant: the quantization of a GGUF, where the repository has several: "Q4_K_M".
    """
    from kvcalc.catalog.hub.fetch import Repo

    repo = Repo(name, revision)
    config = None if file or quant else repo.json("config.json")
    if config is None:
        return _hub_gguf(repo, file, quant)
    said = config.get("quantization_config")
    asked = not said or (isinstance(said, dict) and str(said.get("quant_method", "modelopt")).startswith("modelopt"))
    source = Source(what=f"config.json of {name}", url=repo.address("config.json"))
    model = read_config(config, name, source, repo.json(QUANT) if asked else None)
    return with_file(model, repo.stored())


def _hub_gguf(repo: "Repo", file: str | None, quant: str | None) -> ModelSpec:
    """The GGUF of a repository that has one, or the one that was asked for."""
    names = [file] if file else [name for name in repo.files() if name.endswith(".gguf")]
    if quant:
        names = _of_quantization(names, quant)
    names = [name for name in names if "mmproj" not in name] or names
    shards = [name for name in names if not re.search(r"-0*(?!1-)\d+-of-\d+\.gguf\Z", name)] or names
    if not shards:
        wanted = f"GGUF of {quant}" if quant else "config.json and no GGUF"
        made = f"`-q {quant.lower()} --engine llamacpp` mixes one of {repo.name}; " if quant else ""
        raise KvcalcError(f"{repo.name} has no {wanted}", hint=f"{made}see {repo.page}/tree/main")
    if len(shards) > 1:
        listed = ", ".join(shards[:6])
        raise KvcalcError(
            f"{repo.name} has {len(shards)} GGUF files: {listed}",
            hint=f"name one: {repo.name}/{shards[0]}, or its quantization: {repo.name}:Q4_K_M",
        )
    from kvcalc.catalog.headers.gguf import load_hub_gguf

    return load_hub_gguf(repo, shards[0])


def _of_quantization(names: list[str], quant: str) -> list[str]:
    """The files whose name has this quantization as a whole word: Q4_K is no Q4_K_M, and Q4_K_M no UD-Q4_K_M."""
    found = [name for name in names if re.search(rf"(?i)(?<![a-z0-9]){re.escape(quant)}(?![a-z0-9_])", name)]
    plain = [name for name in found if not re.search(rf"(?i)\b(?:ud|i1)[-_]{re.escape(quant)}", name)]
    return plain or found


def with_file(model: ModelSpec, found: "tuple[Stored, str] | None") -> ModelSpec:
    """The model with the exact size of its file, where that was read.

    Raises:
        KvcalcError: a size that the model's parameters cannot have.
    """
    if found is None:
        return model
    stored, where = found
    elements = sum(t.parameters for t in model.tensors) + sum(
        group.count * sum(t.parameters for t in group.tensors) for group in (*model.groups, *model.mtp)
    )
    if not elements < 16 * stored.bytes < 16 * 16 * elements:  # half a bit to 16 bytes an element
        raise KvcalcError(
            f"{where} of {model.name}: {stored.bytes} bytes cannot hold its {elements} parameters",
            hint="fetch it again, or size the config.json by itself",
        )
    from kvcalc.catalog.headers.settle import settle

    model, confirmed = settle(model, stored.rows, stored.bytes)
    kinds = ", ".join(f"{dtype} {count}" for dtype, count in sorted(stored.elements.items()))
    headers = Source(what=f"{where} of {model.name}", note=kinds or None)
    return replace(
        model,
        weight_file_bytes=stored.bytes,
        file_parameters=stored.parameters,
        sources=(*model.sources, *([Source(what=confirmed)] if confirmed else []), headers),
    )
