"""A GGUF file → ModelSpec: tensors as the file has them, to the byte; mixers from its metadata.

llama.cpp's keys and tensor names are the same for every architecture, so no family is known by name here, but for the
pattern of windows, which many files leave to the program (`gguf.toml`).
"""

import re
from collections.abc import Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvcalc.catalog.files.reader import file_reader
from kvcalc.catalog.headers.gguf_check import refuse_contradictions
from kvcalc.catalog.headers.gguf_file import Entry, Gguf, read_gguf, tables
from kvcalc.catalog.headers.gguf_layers import Facts, layer_of
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, OutOfRange, Source, replace
from kvcalc.specs.formats import PLAIN, WeightFormat
from kvcalc.specs.model import Category, LayerGroup, ModelSpec, Split, Tensor, bias_split

if TYPE_CHECKING:
    from kvcalc.catalog.hub.fetch import Repo

_LAYER = re.compile(r"blk\.(\d+)\.(.+)\Z")
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf\Z")
_PLAIN = {"f32": "fp32", "f16": "fp16", "bf16": "bf16"}
MOST_LAYERS = 4096


def load_gguf(path: Path) -> ModelSpec:
    """The model of a local GGUF, all its shards together."""
    parts = [read_gguf(file_reader(path.with_name(name)), name) for name in shard_names(path.name)]
    return model_of(parts, path.stem, Source(what=f"header of {path}"))


def load_hub_gguf(repo: "Repo", filename: str) -> ModelSpec:
    """The model of a GGUF in a Hub repository, by range requests for its header."""
    parts = [read_gguf(partial(repo.read, name), f"{name} of {repo.name}") for name in shard_names(filename)]
    source = Source(what=f"header of {filename} of {repo.name}", url=repo.address(filename))
    return model_of(parts, f"{repo.name}/{filename}", source)


def shard_names(name: str) -> list[str]:
    """All the files that belong together.

    >>> shard_names("m-00001-of-00002.gguf")
    ['m-00001-of-00002.gguf', 'm-00002-of-00002.gguf']
    """
    match = _SHARD.search(name)
    if match is None:
        return [name]
    count = int(match[2])
    return [f"{name[: match.start()]}-{index:05}-of-{count:05}.gguf" for index in range(1, min(count, 1000) + 1)]


def model_of(parts: list[Gguf], name: str, source: Source) -> ModelSpec:
    """The model whose file (or shards) have these headers.

    Raises:
        KvcalcError: no decoder, layers and tensors that a language model needs are missing, or keys and tensors that
            contradict each other.
    """
    try:
        return _model_of(parts, name, source)
    except OutOfRange as error:  # each key may be well, and what follows from them not: heads wider than the model
        hint = "was the file cut off, or its metadata edited? `gguf-dump` shows them"
        raise KvcalcError(f"{name}: its metadata do not go together: {error}", hint=hint) from None


def _model_of(parts: list[Gguf], name: str, source: Source) -> ModelSpec:
    metadata = parts[0].metadata
    entries = [entry for part in parts for entry in part.tensors]
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture in ("clip", "t5", "t5encoder", "whisper"):
        raise KvcalcError(
            f"{name}: a GGUF of architecture {str(architecture)[:40]!r} is no decoder that kvcalc reads from a GGUF",
            hint="give the model's config.json or its Hub id",
        )
    facts = Facts(architecture, metadata)
    layers, outside = _sorted(entries, name)
    count = facts.need("block_count", most=MOST_LAYERS)
    idle = facts.count("nextn_predict_layers")
    if len(layers) != count:
        raise KvcalcError(f"{name}: {len(layers)} layers of {count} are in the file", hint="are all its shards there?")
    groups = _groups(layers, facts)
    last = count - idle
    hidden = facts.need("embedding_length")
    embedding = _embedding(outside, name, hidden)
    kinds = sorted({entry.type for entry in entries if len(entry.shape) > 1})
    said = tables()["file_types"].get(str(metadata.get("general.file_type")))
    return ModelSpec(
        name=name,
        family=architecture,
        hidden=hidden,
        vocab=embedding.shape[0],
        max_context=facts.integer("context_length"),
        dtype="fp16",
        tied_embeddings=not any(entry.name == "output.weight" for entry in outside),
        groups=_part(groups, range(last)),
        mtp=_part(groups, range(last, count)),
        tensors=tuple(_outer(entry) for entry in outside),
        quantization=f"gguf {said or ', '.join(kinds)}",
        rope_dim=facts.count("rope.dimension_count"),
        weight_file_bytes=sum(entry.bytes for entry in entries),
        assumptions=(*facts.assumptions(), *_unknown(entries)),
        sources=(source,),
    )


def _embedding(outside: list[Entry], name: str, hidden: int) -> Entry:
    """The table of the vocabulary, as wide as the metadata says."""
    found = next((entry for entry in outside if entry.name == "token_embd.weight"), None)
    if found is None:
        raise KvcalcError(f"{name} has no token_embd.weight", hint="is it a language model's?")
    if len(found.shape) != 2 or found.shape[1] != hidden:
        shape = " × ".join(map(str, found.shape))
        raise KvcalcError(
            f"{name}: token_embd.weight is of {shape}, and the file's metadata says rows of {hidden}",
            hint="the file contradicts itself: fetch it again, or give the model's config.json",
        )
    return found


def _unknown(entries: list[Entry]) -> list[Assumption]:
    """Tensors of layers that no table knows: counted, but what they do is not."""
    names = {_stem(match[2]) for entry in entries if (match := _LAYER.match(entry.name))}
    strange = sorted(name for name in names if _kind(name)[0] == "other" and name not in tables()["other"])
    if not strange:
        return []
    why = "tensors that kvcalc does not know: their bytes are counted, a cache of their own would not be"
    return [Assumption(name="tensors", value=", ".join(strange[:8]), why=why)]


def _sorted(entries: list[Entry], name: str) -> tuple[dict[int, list[Entry]], list[Entry]]:
    """The tensors of each layer, and those outside."""
    layers: dict[int, list[Entry]] = {}
    outside = []
    for entry in entries:
        match = _LAYER.match(entry.name)
        if match is None:
            outside.append(entry)
        elif int(match[1]) < MOST_LAYERS:
            layers.setdefault(int(match[1]), []).append(entry)
        else:
            raise KvcalcError(f"{name}: layer {match[1][:20]} of a tensor is out of range", hint="is the file damaged?")
    return layers, outside


def _groups(layers: Mapping[int, list[Entry]], facts: Facts) -> list[LayerGroup]:
    """Equal layers together, in the order in which each kind first comes."""
    same: dict[LayerGroup, list[int]] = {}
    for index in sorted(layers):
        tensors = tuple(t for entry in layers[index] for t in tensors_of(entry, facts, index))
        shapes = {entry.name.split(".", 2)[2]: entry.shape for entry in layers[index]}
        mixers, mlp = layer_of(shapes, facts, index)
        what = f"{facts.architecture}: layer {index}"
        refuse_contradictions(what, shapes, mixers, mlp, facts.count("expert_count", index))
        same.setdefault(LayerGroup(layers=(), mixers=mixers, mlp=mlp, tensors=tensors, prefix="blk"), []).append(index)
    return [replace(group, layers=tuple(indices)) for group, indices in same.items()]


def _part(groups: list[LayerGroup], wanted: range) -> tuple[LayerGroup, ...]:
    parts = (replace(group, layers=tuple(i for i in group.layers if i in wanted)) for group in groups)
    return tuple(part for part in parts if part.layers)


def format_of(entry: Entry) -> WeightFormat:
    """ggml's block formats carry their scales within: bits per element, all told."""
    if entry.type in _PLAIN:
        return PLAIN[_PLAIN[entry.type]]
    return WeightFormat(name=entry.type, compute="fp16", bits=entry.bytes * 8 / prod(entry.shape))


def _stem(local: str) -> str:
    return local.removesuffix(".weight").removesuffix(".bias").removesuffix(".scale")


def _kind(stem: str) -> tuple[Category, Split]:
    """What a tensor is for, and how tensor parallelism divides it."""
    table: dict[Category, dict[Split, list[str]]] = tables()["tensors"]
    for category, splits in table.items():
        for split, names in splits.items():
            if stem in names:
                return category, split
    if stem.startswith(("time_mix", "channel_mix", "ssm_", "shortconv")) and "norm" not in stem:
        return "recurrent", "whole"
    return ("norm" if "norm" in stem or stem == "time_mix_ln" else "other"), "whole"


def tensors_of(entry: Entry, facts: Facts, layer: int) -> list[Tensor]:
    """A tensor of a layer: the experts' as copies, a fused qkv where keys divide otherwise than queries as two."""
    local = entry.name.split(".", 2)[2]
    stem = _stem(local)
    category, split = _kind(stem)
    matrix = local.endswith(".weight") and len(entry.shape) >= 2 and category not in ("norm", "other")
    common: dict[str, Any] = {"category": category, "matmul": matrix and "conv" not in stem}
    common |= {"format": format_of(entry), "buffer": stem == "exp_probs_b"}
    if category == "experts":
        return [Tensor(name=local, shape=entry.shape[1:], copies=entry.shape[0], split=split, **common)]
    heads, kv, dim = facts.heads(layer)
    if stem == "attn_qkv" and kv != heads and entry.shape[0] > heads * dim:
        rest = entry.shape[0] - heads * dim
        parts: list[tuple[int, Split]] = [(heads * dim, "columns"), (rest, "kv")]
        return [Tensor(name=local, shape=(rows, *entry.shape[1:]), split=s, **common) for rows, s in parts]
    after = split if matrix else bias_split(split)
    return [Tensor(name=local, shape=entry.shape, split=after, **common)]


def _outer(entry: Entry) -> Tensor:
    stem = entry.name.removesuffix(".weight").removesuffix(".bias")
    found: dict[str, tuple[Category, Split, bool]] = {
        "token_embd": ("embedding", "vocab", False),
        "per_layer_token_embd": ("embedding", "vocab", False),
        "output": ("head", "vocab", True),
        "position_embd": ("position", "whole", False),
    }
    category, split, matmul = found.get(stem, ("norm" if "norm" in stem else "other", "whole", False))
    buffer = stem.startswith("rope_")
    return Tensor(
        name=entry.name, shape=entry.shape, category=category, split=split, matmul=matmul, buffer=buffer,
        format=format_of(entry),
    )  # fmt: skip
