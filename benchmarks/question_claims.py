"""What the right answer of a question states of a cache, in prose, against what kvcalc says of the same model.

Prose rarely names every setting, so a stated figure must be one of those that kvcalc gives for the settings that the
prose allows: its tensor-parallel sizes, its cache types, its engine or the bare mathematics. The figures are long
numbers: that one fits by chance is unlikely.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import Any

from capacity_checks import check
from case_flags import ENGINES, version_of

from kvcalc.engines import capacity, loaded_weight_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.specs.variants import architecture_variants
from kvcalc.units import GIB, KIB, MIB, parse_tokens

Case = dict[str, Any]
Check = dict[str, Any]
UNITS = {"B": 1, "KB": KIB, "KiB": KIB, "MiB": MIB, "GiB": GIB}
PER_TOKEN = re.compile(
    r"([\d,]+(?:\.\d+)?) ?(B|KB|KiB|MiB)(?:/token| per token)|\d,\d{3} (?:tokens )?x ([\d,]{4,}) B\b|([\d,]{6,}) B x|"
    r"\(([\d,]{5,})/tp\) B"
)
OF_SEQUENCE = re.compile(r"([\d.]+) ?(GiB|MiB)? (?:at|per) ([\d,]{4,})\b")
OF_STAGE = re.compile(r"([\d.]+) GiB per stage for PP(\d+)")
OF_POOL = re.compile(r"([\d,]{4,}) tokens x ([\d,]{4,}) B|([\d,]{6,}) B/token -> ([\d,]{4,}) tokens")
LENGTH = re.compile(r"\b(?:at|of) ([\d,]{5,})\b")
OF_PART = re.compile(r"(?:->|=|\+|plus|KV|recurrent) ([\d.,]+) (GiB|MiB)(?!/)")
OF_WEIGHTS = re.compile(r"weights (?:= |are )?([\d.]+) GiB(?! per GPU)")
CONTEXT = re.compile(r"(?<![\d*.])(\d{4,7}|\d{1,3}(?:,\d{3})+|\d{1,4}[kK])\b")
SEQUENCES = re.compile(r"\((\d+) sequences?\)")
PRINTED_BY_BLOCKS = "0.20"  # the last vLLM whose tokens are not those of whole sequences
ROUNDED = 0.006


def claims(case: Case, model: ModelSpec) -> list[Check]:
    """A check for each figure that the right answer states. Raises KvcalcError where it states none that can be put."""
    if str(case.get("category", "")).startswith("draft"):
        raise KvcalcError("it is about a draft that the case does not describe", hint="")
    said = str(case["right_answer"])
    settings = list(_settings(case))
    found = [*_per_token(said, model, settings), *_weights(said, model)]
    if case.get("engine") == "llama.cpp":
        found += _parts(case, said, model, settings)
    else:
        found += _sequences(case, said, model, settings)
    if case.get("engine") in ENGINES:
        found += _pools(said, model, case)
    if not found:
        raise KvcalcError("the right answer states no figure that kvcalc gives for this model", hint="")
    return found


def _settings(case: Case) -> Iterator[Deployment]:
    """Every deployment that the prose allows."""
    prose = " ".join(str(case.get(field) or "") for field in ("question", "right_answer", "model", "gpu", "notes"))
    sizes = {
        1,
        *map(int, re.findall(r"\bTP ?(\d+)\b", prose)),
        *map(int, re.findall(r"\b(\d+) ?x ?(?:H|A|L|R|\d)", prose)),
    }
    named = [name for name in re.split(r"[+/]", str(case.get("engine") or "")) if name in ENGINES]
    for engine in ("ideal", *(ENGINES[name] for name in named or ["vllm"])):
        for tp in sorted(size for size in sizes if size <= 16):
            for dtype in ("bf16", "fp8") if engine != "llamacpp" else ("f16", "q8_0"):
                versions = {None, PRINTED_BY_BLOCKS, "0.6", version_of(case)} if engine == "vllm" else {None}
                for version in versions:
                    yield checked(
                        Deployment,
                        {
                            "engine": engine,
                            "engine_version": version,
                            "tensor_parallel_size": tp,
                            "kv_cache_dtype": dtype,
                            "max_num_seqs": 1,
                        },
                    )


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _per_token(said: str, model: ModelSpec, settings: Iterable[Deployment]) -> Iterator[Check]:
    known = {figure for one in settings for figure in _figures(model, one)}
    for match in PER_TOKEN.finditer(said):
        number, unit, *others = match.groups()
        want = _number(number) * UNITS[unit] if number else _number(next(text for text in others if text))
        have = min(known, key=lambda figure: abs(figure - want))
        yield check("bytes_per_token", have, want, 1e-4)


@cache
def _figures(model: ModelSpec, deployment: Deployment) -> tuple[float, ...]:
    """Growth of all layers, of those without and with a window, and the bytes that one printed token stands for."""
    pool = 2**44
    try:
        held = capacity(model, deployment, pool)
    except KvcalcError:
        return ()
    start, later = held.bytes_per_token(0), held.bytes_per_token(2**30)
    printed = pool / held.kv_cache_size_tokens if held.kv_cache_size_tokens else 0
    return start, later, start - later, printed


def _sequences(case: Case, said: str, model: ModelSpec, settings: list[Deployment]) -> Iterator[Check]:
    unit = "GiB"
    for match in OF_SEQUENCE.finditer(said):
        unit = match[2] or unit
        yield _nearest(_number(match[1]) * UNITS[unit], model, settings, int(_number(match[3])), UNITS[unit])
    for match in OF_STAGE.finditer(said):
        length = LENGTH.search(str(case.get("question") or ""))
        if length:
            stages = [replace(one, pipeline_parallel_size=int(match[2])) for one in settings]
            yield _nearest(_number(match[1]) * GIB, model, stages, int(_number(length[1])), GIB)


def _parts(case: Case, said: str, model: ModelSpec, settings: list[Deployment]) -> Iterator[Check]:
    """llama.cpp's caches one by one, at a context of the prose; states of so many sequences; full heads of a latent."""
    prose = f"{case.get('question')} {said}"
    contexts = {parse_tokens(text) for text in CONTEXT.findall(prose)} | {model.max_context or 1}
    sequences = {1, *map(int, SEQUENCES.findall(prose))}
    models = [model, *(other for _, other in architecture_variants(model))]
    known = {0}
    for one, context in product((one for one in settings if one.engine == "llamacpp"), contexts):
        for other in models:
            groups = capacity(other, one, 0).pools[0].groups
            parts = [group.blocks(context) for group in groups]
            known |= {sum(parts), *(part * number for part in parts for number in sequences)}
    for match in OF_PART.finditer(said):
        want = _number(match[1]) * UNITS[match[2]]
        have = min(known, key=lambda figure: abs(figure - want))
        yield check("part_gib", round(have / GIB, 4), want / GIB, max(ROUNDED, 0.005 * UNITS[match[2]] / want))


def _weights(said: str, model: ModelSpec) -> Iterator[Check]:
    for match in OF_WEIGHTS.finditer(said):
        have = loaded_weight_bytes(model, Deployment()) / GIB
        yield check("weights_gib", round(have, 2), _number(match[1]), ROUNDED)


def _nearest(want: float, model: ModelSpec, settings: Iterable[Deployment], context: int, unit: int) -> Check:
    known = []
    for one in settings:
        try:
            known.append(capacity(model, one, 0).needed_bytes(context))
        except KvcalcError:
            continue
    have = min(known, key=lambda figure: abs(figure - want))
    return check("sequence_gib", round(have / GIB, 4), want / GIB, max(ROUNDED, 0.05 * unit / want))


def _pools(said: str, model: ModelSpec, case: Case) -> Iterator[Check]:
    """So many tokens of so many bytes: a pool of their product must print them, within one block."""
    engine = ENGINES[case["engine"]]
    for match in OF_POOL.finditer(said):
        tokens, each = (int(_number(text)) for text in (match[1] or match[4], match[2] or match[3]))
        held = capacity(model, checked(Deployment, {"engine": engine, "max_num_seqs": 1}), tokens * each)
        block = held.block_size or 1
        have = held.kv_cache_size_tokens or 0
        yield check("kv_tokens", have, tokens, block / tokens, abs(have - tokens) < block)
