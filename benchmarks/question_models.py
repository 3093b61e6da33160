"""The model of a question: its config, a card of that name, dimensions in its prose, or the bytes of a token alone."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from case_flags import cache_dtype_of, tensor_parallel_of
from case_models import DIVIDES_BY_ALL, card_model, config_model

from kvcalc.counting.cache import element_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.model import Attention, LayerGroup, ModelSpec

Case = dict[str, Any]
LAYERS = re.compile(r"(\d+)[ -]layers? (?:x |of |\()?(\d+) (?:KV )?heads? x (\d+)(?: at TP(\d+))?")
WINDOWS = re.compile(r"SWA|sliding|window|hybrid|linear|Mamba", re.IGNORECASE)


def question_model(case: Case, folders: Sequence[Path]) -> ModelSpec:
    """The model that a question is about. Raises KvcalcError where nothing in it says."""
    found = config_model(case, folders) or card_model(str(case.get("model") or "")) or _stated(case)
    if found is None:
        raise KvcalcError("neither a config, a card of the model's name nor dimensions", hint="")
    return found


def _stated(case: Case) -> ModelSpec | None:
    groups: list[LayerGroup] = []
    for count, mixer in _layers(case) or _of_token_bytes(case):
        start = sum(group.count for group in groups)
        groups.append(LayerGroup(layers=tuple(range(start, start + count)), mixers=(mixer,)))
    if not groups:
        return None
    return ModelSpec(name=case["id"], family="stated", hidden=64, vocab=64, groups=tuple(groups))


def _layers(case: Case) -> list[tuple[int, Attention]]:
    """ "28-layer x 8 KV heads x 128", "40 layers x 64 heads x 128", "48 layers x 1 head x 128 at TP8": equal layers."""
    prose = f"{case.get('model') or ''}; {case.get('right_answer') or ''}"
    match = LAYERS.search(prose)
    if match is None or WINDOWS.search(prose[: match.end()]):
        return []
    layers, heads, width, ranks = (int(part or 1) for part in match.groups())
    return [(layers, _attention(heads * ranks, width))]


def _of_token_bytes(case: Case) -> Iterator[tuple[int, Attention]]:
    """One layer as wide as all that are in the source: enough where every layer grows without end."""
    each = case.get("kv_bytes_per_token_per_gpu")
    if each:
        heads = tensor_parallel_of(case)
        yield 1, _attention(heads, round(each / 2 / element_bytes(cache_dtype_of(case))))


def _attention(heads: int, width: int) -> Attention:
    return Attention(query_heads=DIVIDES_BY_ALL * heads, kv_heads=heads, head_dim=width, v_head_dim=width)
