"""Settings that a line prints: `tensor_parallel_size=2`, `'max_model_len': 8192`, `--kv-cache-dtype fp8`.

Source: `logs.toml`, [settings]: every engine's spelling of a setting, and the words of the lines that print some
"""

import re
from functools import cache

from kvcalc.engines.logs.facts import Value
from kvcalc.engines.logs.patterns import table

_WORDS = {"true": True, "false": False}


@cache
def _names() -> dict[str, str]:
    """Every engine's name for a setting, and ours."""
    return {name: ours for ours, names in table()["settings"]["names"].items() for name in names}


@cache
def _expression() -> re.Pattern[str]:
    names = "|".join(sorted((name.replace("_", "[_-]") for name in _names()), key=len, reverse=True))
    value = r"'(?P<single>[^'\n]{0,300})'|\"(?P<double>[^\"\n]{0,300})\"|(?P<bare>-?[\w./][\w./+-]{0,300})"
    before = rf"(?:--(?P<flag>{names})(?:=|\s{{1,2}})|['\"]?(?P<name>{names})['\"]?\s{{0,2}}[=:]\s{{0,2}})"
    return re.compile(rf"(?<![\w./-]){before}(?:{value})", re.IGNORECASE)


@cache
def _markers() -> tuple[tuple[str, str], ...]:
    """What a line that prints settings holds, and whose line it is then."""
    lines = ((engine, texts) for engine, texts in table()["settings"].items() if engine != "names")
    return tuple((text, engine) for engine, texts in lines for text in texts)


def engine_of(lowered: str) -> str | None:
    """Whose settings a line prints, where its wording says so.

    >>> engine_of("server_args=serverargs(model_path='m')"), engine_of("--max-model-len 4096")
    ('sglang', None)
    """
    return next((engine for text, engine in _markers() if engine != "any" and text in lowered), None)


def settings_in(line: str, lowered: str) -> dict[str, Value]:
    """The settings of a line that prints some; of repeats, the first counts (nested values come later)."""
    if not any(text in lowered for text, _ in _markers()):
        return {}
    found: dict[str, Value] = {}
    for match in _expression().finditer(line):
        quoted = match["single"] if match["single"] is not None else match["double"]
        text = quoted if quoted is not None else match["bare"]
        ours = _names()[(match["flag"] or match["name"]).replace("-", "_").lower()]
        value = _typed(text, quoted is not None)
        if value is not None and ours not in found:
            found[ours] = value
    # A bare switch, without a value: `--enforce-eager`.
    for switch in ("enforce_eager", "enable_expert_parallel", "enable_lora"):
        if re.search(rf"--{switch.replace('_', '[_-]')}(?![\w-])(?!\s+(?:true|false))", lowered):
            found[switch] = True
    return found


def _typed(text: str, quoted: bool) -> Value | None:
    cleaned = text.strip().rstrip(".")
    if not quoted:
        if cleaned.lower() in ("none", "null", ""):
            return None
        if cleaned.lower() in _WORDS:
            return _WORDS[cleaned.lower()]
    if re.fullmatch(r"-?\d{1,15}", cleaned, re.ASCII):
        return int(cleaned)
    if re.fullmatch(r"\d{0,9}\.\d{1,18}", cleaned, re.ASCII):
        return float(cleaned)
    return cleaned.removeprefix("torch.") or None
