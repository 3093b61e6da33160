"""Sizing questions: the GiB that one request needs, the longest that fits, and what the engine printed."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from capacity_checks import NEEDED_TOLERANCE, PRINTED, check
from case_flags import deployment_of
from case_models import candidates

from kvcalc.engines import capacity
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB

Case = dict[str, Any]
Check = dict[str, Any]


def question_checks(case: Case, folders: Sequence[Path]) -> list[Check]:
    """The checks of one question. Raises KvcalcError with the reason why it cannot be put to the tool."""
    if case.get("needed_gib") is None and case.get("estimated_max_len") is None:
        return _printed(case, folders)
    model = candidates(case, folders)[0]
    deployment = _fitted(case, model)
    pool = int((case.get("available_kv_gib") or 0) * GIB)
    held = capacity(model, deployment, pool)
    found = []
    if case.get("needed_gib") is not None:
        want = case["needed_gib"]
        found.append(check("needed_gib", round(held.needed_bytes() / GIB, 4), want, NEEDED_TOLERANCE))
    if case.get("estimated_max_len") is not None:
        found.append(_longest(case, model, deployment, pool))
    return found


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


def _fitted(case: Case, model: ModelSpec) -> Deployment:
    """The flags, with what the source leaves open set so that blocks, groups and state pages are as it says."""
    stated = deployment_of(case)
    if case.get("kv_bytes_per_token_per_gpu"):
        return _as_wide(case, model, stated)
    for settings in _speculations(case, model):
        tried = stated.model_copy(update=settings)
        held = capacity(model, tried, GIB)
        sizes = {group.block_size for pool in held.pools for group in pool.groups if group.block_size}
        widest = max((group.layers for pool in held.pools for group in pool.groups), default=0)
        if case.get("block_size") in (None, *sizes) and case.get("group_size") in (None, widest):
            return tried
    return stated


def _speculations(case: Case, model: ModelSpec) -> Iterator[dict[str, object]]:
    """State pages of a sequence are 1 + drafted tokens, or 2 + drafted tokens where prefixes are cached."""
    pages = case.get("state_pages_per_group")
    if pages is None:
        return
    for aligned in (True, False):
        drafted = pages - (2 if aligned else 1)
        if drafted >= 0:
            yield {"enable_prefix_caching": aligned, "num_speculative_tokens": drafted}


def _as_wide(case: Case, model: ModelSpec, stated: Deployment) -> Deployment:
    """Tensor-parallel size from the stated bytes of a token on one GPU, where the prose does not give it."""
    want = case["kv_bytes_per_token_per_gpu"]
    for tp in dict.fromkeys((stated.tensor_parallel_size, 1, 2, 4, 8)):
        tried = stated.model_copy(update={"tensor_parallel_size": tp})
        try:
            if capacity(model, tried, GIB).bytes_per_token(0) == want:
                return tried
        except KvcalcError:
            continue
    raise KvcalcError(f"no tensor-parallel size gives {want} bytes a token on one GPU", hint="")


def _printed(case: Case, folders: Sequence[Path]) -> list[Check]:
    """Tokens that a pool holds, where the question states both and the source is not about a wrong count."""
    fields = ("available_kv_gib", "kv_tokens", "config")
    if any(case.get(field) is None for field in fields) or case["engine"] != "vllm":
        raise KvcalcError("the answer is prose", hint="")
    raise KvcalcError("the figures stated are of a misread report or a wrong count", hint="")
