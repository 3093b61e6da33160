"""`llama-bench -o json` (an array) and `-o jsonl`: one object a test.

`n_prompt` tokens of a prompt or `n_gen` generated ones, after `n_depth`; `avg_ts` tokens a second. What it says of the
backend, the build, ubatches, attention, the cache's type and what stayed with the CPU goes before what was asked.
Source: llama.cpp, tools/llama-bench/README.md, "JSON"; flash_attn is -1 (auto), 0 or 1, a switch in older builds.
"""

from collections.abc import Mapping
from typing import Any

from kvcalc.catalog.bench.measurement import Timed
from kvcalc.errors import KvcalcError

NEEDED = ("n_prompt", "n_gen", "avg_ts")
BACKENDS = {
    "CUDA": "cuda",
    "ROCm": "hip",
    "HIP": "hip",
    "Vulkan": "vulkan",
    "Metal": "metal",
    "MTL": "metal",
    "SYCL": "sycl",
}
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
    return Timed(
        decodes=bool(generated),
        tokens=prompt or generated,
        depth=int(table.get("n_depth") or 0),
        batch=1,
        seconds=1 / rate if generated else prompt / rate,
        source=source,
        settings=tuple((name, value) for name, value in _settings(table).items() if value is not None),
    )


def _settings(table: Mapping[str, Any]) -> dict[str, int | str | None]:
    """Fields of a deployment; None: not stated, or what is usual."""
    build, cache = table.get("build_number"), table.get("type_k")
    named = str(table.get("backends") or "").split(",")
    return {
        "engine_version": f"b{build}" if build else None,
        "backend": next((BACKENDS[name.strip()] for name in named if name.strip() in BACKENDS), None),
        "ubatch_size": int(table["n_ubatch"]) if table.get("n_ubatch") else None,
        "flash_attn": FLASH.get(str(table.get("flash_attn"))),
        "kv_cache_dtype": str(cache) if cache and cache != "f16" else None,
        "n_gpu_layers": _count(table.get("n_gpu_layers")),
        "n_cpu_moe": _count(table.get("n_cpu_moe")) or None,
    }


def _count(value: Any) -> int | None:
    """A number of layers; all of them where it is none or below 0."""
    return value if isinstance(value, int) and value >= 0 else None
