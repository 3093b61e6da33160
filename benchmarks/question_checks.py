"""Sizing questions: the GiB that one request needs, the longest that fits, and what right answers state in prose."""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from capacity_checks import NEEDED_TOLERANCE, PRINTED, check
from case_flags import deployment_of, versions_of
from question_claims import claims
from question_models import question_model

from kvcalc.engines import capacity
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB

Case = dict[str, Any]
Check = dict[str, Any]


def question_checks(case: Case, folders: Sequence[Path]) -> list[Check]:
    """The checks of one question. Raises KvcalcError with the reason why it cannot be put to the tool."""
    model = question_model(case, folders)
    if case.get("needed_gib") is None and case.get("estimated_max_len") is None:
        return claims(case, model)
    tries = [_check(case, model, version) for version in versions_of(case)]
    return max(tries, key=lambda checks: sum(one["passed"] for one in checks))


def _check(case: Case, model: ModelSpec, version: str | None) -> list[Check]:
    deployment = _fitted(case, model, replace(deployment_of(_with_length(case)), engine_version=version))
    pool = int((case.get("available_kv_gib") or 0) * GIB)
    found = []
    if case.get("needed_gib") is not None:
        needed = capacity(model, deployment, pool).needed_bytes()
        found.append(check("needed_gib", round(needed / GIB, 4), case["needed_gib"], NEEDED_TOLERANCE))
    if case.get("estimated_max_len") is not None:
        found.append(_longest(case, model, deployment, pool))
    return found


def _with_length(case: Case) -> Case:
    """The length stands in the question where no field has it: "1,048,576 tokens need 24.00 GiB"."""
    said = re.search(r"([\d,]{5,}) tokens need", str(case.get("question") or ""))
    if case.get("max_model_len") or not said:
        return case
    return {**case, "max_model_len": int(said[1].replace(",", ""))}


def _longest(case: Case, model: ModelSpec, deployment: Deployment, pool: int) -> Check:
    """Within one block, and within what two decimals of the pool can mean."""
    limit = deployment.max_model_len or model.max_context or 1
    want, half = case["estimated_max_len"], int(PRINTED * GIB)
    low, have, high = (
        capacity(model, deployment, max(0, pool + side * half)).estimated_max_model_len(limit) for side in (-1, 0, 1)
    )
    sizes = [group.block_size for p in capacity(model, deployment, pool).pools for group in p.groups]
    block = max((size for size in sizes if size), default=1)
    tolerance = max(block, high - have, have - low)
    return check("estimated_max_len", have, want, tolerance / want, low - block <= want <= high + block)


def _fitted(case: Case, model: ModelSpec, stated: Deployment) -> Deployment:
    """The flags, with what the source leaves open set so that blocks, groups and state pages are as it says."""
    if case.get("kv_bytes_per_token_per_gpu"):
        return _as_wide(case, model, stated)
    for settings in _speculations(case, stated):
        tried = replace(stated, **settings)
        held = capacity(model, tried, GIB)
        sizes = {group.block_size for pool in held.pools for group in pool.groups if group.block_size}
        widest = max((group.layers for pool in held.pools for group in pool.groups), default=0)
        if case.get("block_size") in (None, *sizes) and case.get("group_size") in (None, widest):
            return tried
    return stated


def _speculations(case: Case, stated: Deployment) -> Iterator[dict[str, Any]]:
    """State pages of a sequence are 1 + drafted tokens, or 2 + drafted tokens where prefixes are cached."""
    pages = case.get("state_pages_per_group")
    if pages is None:
        return
    for dtype, aligned in product(_dtypes(stated), (True, False)):
        drafted = pages - (2 if aligned else 1)
        if drafted >= 0:
            yield {"enable_prefix_caching": aligned, "num_speculative_tokens": drafted, "kv_cache_dtype": dtype}


def _dtypes(stated: Deployment) -> tuple[str, ...]:
    """What the prose says, else what the bytes or blocks of the source show."""
    return tuple(dict.fromkeys((stated.kv_cache_dtype, "fp8")))


def _as_wide(case: Case, model: ModelSpec, stated: Deployment) -> Deployment:
    """Tensor-parallel size and cache type from the bytes of a token on one GPU, where the prose does not give them."""
    want = case["kv_bytes_per_token_per_gpu"]
    for dtype, tp in product(_dtypes(stated), dict.fromkeys((stated.tensor_parallel_size, 1, 2, 4, 8))):
        tried = replace(stated, tensor_parallel_size=tp, kv_cache_dtype=dtype)
        try:
            if capacity(model, tried, GIB).bytes_per_token(0) == want:
                return tried
        except KvcalcError:
            continue
    raise KvcalcError(f"no tensor-parallel size gives {want} bytes a token on one GPU", hint="")
