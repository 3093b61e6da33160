"""Flags by the engines' own names beside kvcalc's, which are vLLM's: read by the tables that read pasted commands."""

import shlex
from collections.abc import Mapping
from typing import Any

from kvcalc.catalog.serve.served import read_command
from kvcalc.catalog.serve.table import command_line
from kvcalc.errors import KvcalcError
from kvcalc.results.base import engine_name
from kvcalc.specs.deployment import engine_called

# The field that a flag of kvcalc's table fills → whose flag it is, and how that engine spells it.
OWN = {
    "kv_cache_memory_bytes": ("vllm", "--kv-cache-memory-bytes"),
    "speculative_config": ("vllm", "--speculative-config"),
    "enable_lora": ("vllm", "--enable-lora"),
    "mem_fraction_static": ("sglang", "--mem-fraction-static"),
    "free_gpu_memory_fraction": ("trtllm", "--kv_cache_free_gpu_memory_fraction"),
    "cache_type_k": ("llamacpp", "-ctk"),
    "cache_type_v": ("llamacpp", "-ctv"),
}


def in_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags with every engine's own name put into the field that it fills.

    Raises KvcalcError for a name of another engine than the one that is asked about, or a field that is given twice.

    >>> in_fields({"engine": "sglang", "mem_fraction_static": "0.8"})
    {'engine': 'sglang', 'gpu_memory_utilization': '0.8'}
    """
    left = dict(flags)
    given = {name: left.pop(name) for name in OWN if name in left}
    if not given:
        return left
    engine = engine_called(str(left.get("engine", "vllm")))
    words: list[str] = []
    for name, value in given.items():
        whose, flag = OWN[name]
        if whose != engine:
            hint = f"add --engine {whose}, or leave it out"
            raise KvcalcError(f"{flag.replace('_', '-')} is {engine_name(whose)}'s, not {engine_name(engine)}'s", hint)
        words += [flag] if value is True else [flag, str(value)]
    if "enable_lora" in given and "max_loras" in left:
        words += ["--max-loras", str(left.pop("max_loras"))]
    served = read_command(f"{command_line(engine).about['prints_program']} --model model {shlex.join(words)}")
    known = set(left)
    for name, value in served.fields.items():
        if name in known and str(left[name]) != str(value):
            raise KvcalcError(f"{served.typed.get(name, name)} is given twice, by two names", hint="leave one out")
    return left | dict(served.fields)
