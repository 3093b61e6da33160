"""What every report shares: figures that explain themselves, ranges, and the JSON envelope."""

import re
from typing import Any, ClassVar, Literal

from kvcalc.specs.base import Assumption, Frozen, Source

# The version of each command's JSON, where it is not 1: it rises when the meaning of a key changes.
MEANING = {"size": 2, "step": 2, "curve": 2, "compare": 2, "check": 2, "prefill": 2, "speculate": 2}

_SPELLED = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "llamacpp": "llama.cpp"}


def engine_name(engine: str, version: str | None = None) -> str:
    """An engine as its makers spell it.

    >>> engine_name("vllm", "0.33.0"), engine_name("ideal")
    ('vLLM 0.33.0', 'ideal')
    """
    return " ".join(part for part in (_SPELLED.get(engine, engine), version) if part)


def schema_name(command: str) -> str:
    """What a command's JSON says of its own form.

    >>> schema_name("size"), schema_name("kv")
    ('kvcalc.size/2', 'kvcalc.kv/1')
    """
    return f"kvcalc.{command}/{MEANING.get(command, 1)}"


class Figure(Frozen):
    """A number that can show its working: `formula` evaluated at `inputs` gives `value`."""

    name: str
    value: float | int | None
    unit: str
    formula: str  # a Python expression in the names of `inputs`; max, min, floor, ceil, median and a sum may appear
    inputs: dict[str, float | int]
    source: str  # the paper, lesson or engine file that the formula is from

    @property
    def substituted(self) -> str:
        """The formula with the values in place of the names; still an expression that can be evaluated."""
        return re.sub(r"\b[A-Za-z_]\w*", lambda match: self._shown(match[0]), self.formula)

    def _shown(self, name: str) -> str:
        value = self.inputs.get(name)
        if value is None:
            return name
        whole = float(value).is_integer() and abs(value) < 10**15
        text = f"{int(value):_}" if whole else repr(value)
        return f"({text})" if value < 0 else text


Fit = Literal["fits", "may_fit", "does_not_fit"]


class Range(Frozen):
    """An estimate: the value, and where about 80 % of measurements fall."""

    value: float
    low: float
    high: float


class Report(Frozen):
    """A command's answer. `inputs` echoes what the figures were computed from, resolved."""

    command: ClassVar[str] = ""
    inputs: dict[str, Any]
    result: Any
    figures: tuple[Figure, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    sources: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self, explain: bool = False) -> dict[str, Any]:
        """What `kvcalc <command> --json` prints, as dicts, lists, text and numbers; base units, in the keys' names.

        Args:
            explain: with each figure's formula, inputs and source, as far as the answer was asked for with `explain`.
        """
        from kvcalc.results.data import envelope

        return envelope(self, explain)

    def to_json(self, explain: bool = False) -> str:
        """What `kvcalc <command> --json` prints; NaN and Infinity cannot occur."""
        from kvcalc.results.data import json_text

        return json_text(self.to_dict(explain))
