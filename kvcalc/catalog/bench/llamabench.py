"""`llama-bench -o json` (an array) and `-o jsonl`: one object a test.

`n_prompt` tokens of a prompt or `n_gen` generated ones, after `n_depth`; `avg_ts` tokens a second.
Source: llama.cpp, tools/llama-bench/README.md, "JSON"; flash_attn is -1 (auto), 0 or 1, a switch in older builds.
"""

from collections.abc import Mapping
from typing import Any

from kvcalc.catalog.bench.measurement import Timed
from kvcalc.errors import KvcalcError

NEEDED = ("n_prompt", "n_gen", "avg_ts")
FLASH = {"-1": "auto", "0": "off", "1": "on", "False": "off", "True": "on"}


def is_llamabench(table: Mapping[str, Any]) -> bool:
    """Whether an object is one of these results."""
    return all(key in table for key in NEEDED)


def timed(table: Mapping[str, Any], source: str) -> Timed | None:
    """The test of one object; None for a test of both (`-pg`), whose two times are not told apart.

    Raises:
        KvcalcError: no rate.
    """
    prompt, generated = int(table["n_prompt"]), int(table["n_gen"])
    rate = table["avg_ts"]
    if not isinstance(rate, int | float) or not 0 < rate < 1e9:
        raise KvcalcError(f"{source}: avg_ts is {str(rate)[:40]!r}, not a rate", hint="is the file whole?")
    if bool(prompt) == bool(generated):
        return None
    build = table.get("build_number")
    return Timed(
        decodes=bool(generated),
        tokens=prompt or generated,
        depth=int(table.get("n_depth") or 0),
        batch=1,
        seconds=1 / rate if generated else prompt / rate,
        source=source,
        ubatch_size=int(table["n_ubatch"]) if table.get("n_ubatch") else None,
        flash_attn=FLASH.get(str(table.get("flash_attn"))),
        build=f"b{build}" if build else None,
    )
