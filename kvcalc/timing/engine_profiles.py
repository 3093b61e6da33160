"""Profiles: what an engine adds to its kernels, by engine and version, from `engines.toml`.

A profile belongs to an engine, a span of versions and at most a vendor of GPUs; never to a model.

Source: `engines.toml`: every profile says on how many points and cells it was fitted, its error, and in `note` what is
a judgement
"""

import tomllib
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from kvcalc.specs.versions import Version, parse_version, release

FILE = Path(__file__).with_name("engines.toml")
OWN = ("vendor", "points", "cells", "error", "note", "by_hand")  # never taken from another profile
DEFAULT = "serving"  # what an engine without a profile of its own is taken for


class Profile(NamedTuple):
    """Constants of an engine and span of versions. Times in seconds, factors multiply kernel times."""

    name: str
    engine: str
    since: str = ""  # the first version that it holds for
    vendor: str = ""  # of the GPUs, with their architecture where it matters ("AMD CDNA 3"); empty: any
    library: str = "vllm"  # whose attention and all-reduce kernels it runs
    ggml: bool = False  # its kernels are llama.cpp's own, by backend and build
    # A step
    step_s: float = 0  # once a step: scheduler, sampling kernel, launch
    moe_step_s: float = 0  # once a step more where the model has experts
    sequence_s: float = 0  # for each sequence of a step
    sequences_most: float = inf  # so many at most: the host's work for more of them hides behind the step
    layer_s: float = 0  # for each layer: launches that no graph hides
    eager_layer_s: float = 0  # for each layer at least, where there are no graphs: the host launches kernel by kernel
    moe_eager_layer_s: float = 0  # the same more where the model has experts: routing, sorting, more kernels
    kernel_factor: float = 1  # of all kernels: below 1 where better ones than the measured are run
    launch_factor: float = 1  # of their latencies
    link_factor: float = 1  # of collectives
    elementwise_factor: float = 1  # of norms, activations and additions: 0 where multiplications have them fused in
    padded_experts: bool = False  # fp8 experts with scales by block: a tile of rows for each, woken or not
    fused_experts: bool = True  # False: one multiplication a matrix, over the gathered experts
    reread_bytes_per_s: float = (
        0  # 0: query heads of a group share one reading of the cache; else from L2, at this rate
    )
    one_attention_call: bool = False  # rows that decode and prompts in one call of FlashAttention, whichever version
    reread_all: bool = False  # False: groups of 8 heads of 128 elements share it all the same
    # Prompts
    prompt_factor: float = 1  # of the kernels of a prompt, alone or carried by a step
    prompt_layer_s: float = 0  # for each layer of a pass with a prompt, which no graph covers
    moe_prompt_layer_s: float = 0  # the same more where the model has experts: routing, sorting, quantizing, unfused
    front_end_alone_s: float = 0  # once a request before its first token: the server, the tokenizer, the way back
    front_end_s: float = 0  # the same where the server streams many others' answers meanwhile
    prefill_first: bool = False  # the scheduler runs all waiting prompts before it decodes on
    busy_factor: float = 1  # of the work of prompts in an engine that is never idle
    lock_step: bool = True  # where all requests are equally long, they end and come back together; then the time to
    queue_base_equal: float = 1  # first token is, in prefills, base + slope · (clients - 1), after the front end
    queue_slope_equal: float = 0
    seen_base_equal: float = 1  # prefills that pass before a request's first token: base + slope · clients
    seen_slope_equal: float = 0
    arrival_wait: float = 0  # random arrivals wait so many requests' time, where the first token's is limited
    # Evidence
    points: int = 0
    cells: int = 0
    error: float = 0
    note: str = ""
    by_hand: tuple[str, ...] = ()  # of its own constants, those that no fit makes: judgements, with why in `note`

    @property
    def began(self) -> Version:
        """The first version that it holds for."""
        return parse_version(self.since) if self.since else (0, 0, 0)


@cache
def profiles() -> tuple[Profile, ...]:
    """Every profile of the data file."""
    return resolved(tomllib.loads(FILE.read_text(encoding="utf-8"))["profile"])


def resolved(tables: list[dict[str, Any]]) -> tuple[Profile, ...]:
    """Profiles from tables; one may take what it leaves out from an earlier one: `like`."""
    by_name: dict[str, dict[str, Any]] = {}
    for table in tables:
        inherited = {key: value for key, value in by_name.get(table.get("like", ""), {}).items() if key not in OWN}
        by_name[table["name"]] = inherited | {key: value for key, value in table.items() if key != "like"}
    return tuple(Profile(**{**table, "by_hand": tuple(table.get("by_hand", ()))}) for table in by_name.values())


def profile_for(engine: str, version: str | None = None, maker: str = "") -> Profile:
    """The profile of an engine: the last that began at or before this version; without a version the newest.

    `maker` is the vendor of the GPU and its architecture.

    An engine that has none (`ideal`) is taken for a present-day serving engine without its MoE overhead.

    >>> profile_for("vllm").engine, profile_for("vllm", "0.5.0").name
    ('vllm', 'vllm-2024')
    """
    return choose(profiles(), engine, version, maker)


def choose(known: tuple[Profile, ...], engine: str, version: str | None, maker: str) -> Profile:
    """`profile_for` among some profiles."""
    mine = [one for one in known if one.engine == engine and maker.startswith(one.vendor)]
    if not mine:
        return next(one for one in known if one.name == DEFAULT)
    asked = None if version is None else release(version)
    reached = [one for one in mine if asked is None or one.began <= asked]
    if not reached:
        return min(mine, key=lambda one: (one.began, -len(one.vendor)))
    # Of equal beginnings the one that says most of the GPU.
    return max(reached, key=lambda one: (one.began, len(one.vendor)))
