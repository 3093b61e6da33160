"""What the name of a GGUF says when the file is not here: which model it is of, and how its weights are stored."""

import re
from typing import NamedTuple

from kvcalc.catalog.quantization.gguf_recipe import find_recipe

_SHARD = re.compile(r"-\d{3,6}-of-\d{3,6}\Z")
_PARTS = re.compile(r"[-.](?=[^-.])")
USUAL = "Q4_K_M"  # what llama.cpp takes of a repository (common_get_hf_file in common/download.cpp)


class FileName(NamedTuple):
    """`model` is what is left of the name; `quantization` one of llama.cpp's file types, as it is typed; `near` the
    type that was typed where only the plain one is known: Unsloth's dynamic mixes have no public recipe."""

    model: str
    quantization: str | None
    near: str | None = None


def read_file_name(name: str) -> FileName:
    """The parts of a file's path, or of `owner/repo:TYPE`.

    >>> read_file_name("/models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf")
    FileName(model='Meta-Llama-3.1-8B-Instruct', quantization='Q4_K_M', near=None)
    >>> read_file_name("unsloth/Qwen3-8B-GGUF:UD-Q5_K_XL")
    FileName(model='Qwen3-8B', quantization='Q5_K_M', near='UD-Q5_K_XL')
    >>> read_file_name("model.gguf")
    FileName(model='model', quantization=None, near=None)
    """
    base = re.split(r"[/\\]", name)[-1]
    repository, colon, wanted = base.partition(":")
    if not base.lower().endswith(".gguf"):  # a repository
        model = re.sub(r"(?i)[-_.]gguf\Z", "", repository)
        return _typed(model, wanted if colon else USUAL)
    stem = _SHARD.sub("", base[: -len(".gguf")])
    for start in sorted({match.end() for match in _PARTS.finditer(stem)} | {match.end() for match in _late(stem)}):
        found = _typed(stem[: start - 1], stem[start:])
        if found.quantization is not None:
            return found
    return FileName(stem, None)


def _late(stem: str) -> list[re.Match[str]]:
    """An underscore before the type, as in `model_Q8_0`."""
    return list(re.finditer(r"_(?=(?:i?q|bf|f|mxfp)\d)", stem, re.IGNORECASE))


def _typed(model: str, text: str) -> FileName:
    if find_recipe(text) is not None:
        return FileName(model, text)
    plain = re.sub(r"(?i)\Aud-", "", text)
    if re.fullmatch(r"(?i)(?:ud-)?i?q\d\w*", text):
        for one in (plain, re.sub(r"(?i)_XL\Z", "_M", plain), re.sub(r"(?i)_XL\Z", "", plain), plain[:2] + "_0"):
            if find_recipe(one) is not None:
                return FileName(model, one, near=text)
    return FileName(model, None)
