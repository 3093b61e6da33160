"""The model of a case: its config's folder, else the forms in which cases write dimensions down."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc.catalog.cards import find_card
from kvcalc.catalog.config.read import read_config
from kvcalc.catalog.models import load_card
from kvcalc.counting.cache import element_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Source, replace
from kvcalc.specs.model import Attention, Indexer, LatentAttention, LayerGroup, Mixer, ModelSpec, Recurrent

Case = dict[str, Any]
DIVIDES_BY_ALL = 128  # query heads do not matter to a cache but must divide
STATE_DTYPES = ("fp32", "bf16")  # a sentence does not say: the block size that the log prints decides


@cache
def model_in(folder: Path) -> ModelSpec:
    """The model that a folder's config.json (and hf_quant_config.json) describes."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    beside = folder / "hf_quant_config.json"
    quantization = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else None
    return read_config(config, folder.name, Source(what=f"config.json of {folder.name}"), quantization)


def config_model(case: Case, folders: Sequence[Path]) -> ModelSpec | None:
    """The model of the case's `config`; None where it names none. Raises KvcalcError where no folder has it."""
    name = case.get("config")
    if not name:
        return None
    for folder in folders:
        if (folder / name / "config.json").exists():
            return model_in(folder / name)
    raise KvcalcError(f"no folder has {name}/config.json", hint="give its parent with --configs")


def card_model(name: str) -> ModelSpec | None:
    """A card wins over the network, which is never asked here. Notes and endings of tuned models are left off."""
    plain = re.sub(r"\s*[(,].*", "", name)
    for text in (plain, plain.rpartition("/")[2], re.sub(r"-(?:Instruct|Chat|it|Exp|hf)$", "", plain)):
        card = find_card(text) if text else None
        if card is not None:
            return load_card(card)
    return None


def candidates(case: Case, folders: Sequence[Path]) -> list[ModelSpec]:
    """The models that the case can mean; several where a sentence leaves the state's dtype open."""
    found = config_model(case, folders)
    if found is not None:
        return [found]
    sentence = case.get("model_dims_known") or ""
    mixers = list(_mixers(sentence, str(case.get("kv_cache_dtype", "f16"))))
    if "index" in f"{sentence} {case.get('arch')} {case.get('kv_cache_dtype')}":
        mixers = [(count, _indexed(mixer)) for count, mixer in mixers]
    if not mixers:
        raise KvcalcError(f"neither a config nor dimensions that can be read: {sentence[:60]!r}", hint="")
    groups, start = [], 0
    for count, mixer in mixers:
        groups.append(LayerGroup(layers=tuple(range(start, start + count)), mixers=(mixer,)))
        start += count
    drafts = [mixer for _, mixer in mixers if isinstance(mixer, Attention | LatentAttention)][-1:]
    draft = LayerGroup(layers=tuple(range(start, start + int(case.get("mtp_layers") or 0))), mixers=tuple(drafts))
    states = STATE_DTYPES if any(isinstance(mixer, Recurrent) for _, mixer in mixers) else (None,)
    return [
        ModelSpec(
            name=case["id"],
            family="dims",
            hidden=64,
            vocab=64,
            groups=tuple(groups),
            mtp=(draft,) if draft.count else (),
            state_dtype=state,
        )
        for state in states
    ]


def _indexed(mixer: Mixer) -> Mixer:
    """Sparse attention's index: 128 elements in every model that has been logged."""
    if not isinstance(mixer, LatentAttention):
        return mixer
    return replace(mixer, indexer=Indexer(heads=1, head_dim=128, top_k=2048))


def _number(text: str) -> int:
    return int(float(text.replace(",", "")))


def _mixers(sentence: str, cache_dtype: str) -> Iterable[tuple[int, Mixer]]:
    """Layers and their mixer, for each form that is found in the sentence."""
    yield from _rows(sentence, cache_dtype)
    yield from _latents(sentence)
    for match in re.finditer(
        r"(?:full|sliding|SWA)[^;]*?L=(\d+) n_kv=(\d+) head_dim=(\d+)(?: v_head_dim=(\d+))?(?: window=(\d+))?", sentence
    ):
        layers, heads, width, values, window = (int(part) if part else None for part in match.groups())
        assert layers is not None
        assert heads is not None
        assert width is not None
        yield layers, _attention(heads, width, values, window)
    yield from _named_layers(sentence)
    yield from _recurrent(sentence)


def _attention(heads: int, width: int, values: int | None = None, window: int | None = None) -> Attention:
    return Attention(
        query_heads=DIVIDES_BY_ALL * heads, kv_heads=heads, head_dim=width, v_head_dim=values or width, window=window
    )


def _rows(sentence: str, cache_dtype: str) -> Iterable[tuple[int, Mixer]]:
    """llama.cpp: "layers with a cache=12, K row bytes=544.0, V row bytes=544.0"."""
    match = re.search(r"layers with a cache=(\d+), K row bytes=([\d.]+), V row bytes=([\d.]+)", sentence)
    if match is None:
        return
    types = re.findall(r"(?:[KV] )?([a-z]+\d+(?:_\d)?)", cache_dtype) or ["f16"]
    key, value = (float(match[i]) / element_bytes(name) for i, name in ((2, types[0]), (3, types[-1])))
    if value:
        yield int(match[1]), _attention(1, round(key), round(value))
    else:
        yield (
            int(match[1]),
            LatentAttention(
                query_heads=DIVIDES_BY_ALL, kv_lora_rank=round(key), rope_head_dim=0, nope_head_dim=1, v_head_dim=1
            ),
        )


def _latents(sentence: str) -> Iterable[tuple[int, Mixer]]:
    """ "L=61 MLA kv_lora_rank=512 qk_rope=64"."""
    match = re.search(r"L=(\d+) MLA kv_lora_rank=(\d+) qk_rope=(\d+)", sentence)
    if match is not None:
        layers, rank, rope = (int(part) for part in match.groups())
        yield (
            layers,
            LatentAttention(
                query_heads=DIVIDES_BY_ALL, kv_lora_rank=rank, rope_head_dim=rope, nope_head_dim=1, v_head_dim=1
            ),
        )


def _named_layers(sentence: str) -> Iterable[tuple[int, Mixer]]:
    """Layers by name: "35 SWA (2 KV heads x 256, window 512) + 7 full (2 KV heads x 512)"; or a shared width."""
    shared = re.search(r"(\d+) full, (\d+) KV heads? x (\d+)", sentence)
    for match in re.finditer(r"(\d+) SWA (\d+)", sentence):
        if shared:
            yield int(match[1]), _attention(int(shared[2]), int(shared[3]), window=int(match[2]))
    if shared:
        yield int(shared[1]), _attention(int(shared[2]), int(shared[3]))
    pattern = r"(\d+) (SWA|full|attention|global) \((\d+) KV heads? x (\d+)(?:, window (\d+))?\)"
    for match in re.finditer(pattern, sentence):
        window = int(match[5]) if match[5] else None
        yield int(match[1]), _attention(int(match[3]), int(match[4]), window=window)


def _recurrent(sentence: str) -> Iterable[tuple[int, Mixer]]:
    """ "linear(GDN) L=48 k_heads=16 v_heads=48 dk=dv=128 conv_kernel=4", "27 Mamba2 (128 heads x 80, state 128, …)"."""
    match = re.search(r"linear\((\w+)\) L=(\d+) k_heads=(\d+) v_heads=(\d+) dk=dv=(\d+) conv_kernel=(\d+)", sentence)
    if match is not None:
        layers, keys, values, width, kernel = (int(match[i]) for i in range(2, 7))
        yield (
            layers,
            Recurrent(
                family="gated_delta_net",
                conv_channels=2 * keys * width + values * width,
                conv_kernel=kernel,
                heads=values,
                state_elements=values * width * width,
            ),
        )
    match = re.search(
        r"(\d+) Mamba2 \((\d+) heads x (\d+), state (\d+), conv_dim ([\d,]+)(?:, conv (\d+))?\)", sentence
    )
    if match is not None:
        layers, heads, width, state = (int(match[i]) for i in range(1, 5))
        yield (
            layers,
            Recurrent(
                family="mamba2",
                conv_channels=_number(match[5]),
                conv_kernel=int(match[6] or 4),
                heads=heads,
                state_elements=heads * width * state,
            ),
        )
