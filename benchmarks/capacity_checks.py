"""What a log says a pool holds against what kvcalc says, given the memory that the log says was available."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from case_flags import deployment_of
from case_models import candidates

from kvcalc.engines import capacity
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.llamacpp.dtypes import key_value_types
from kvcalc.engines.llamacpp.rows import row_bytes
from kvcalc.engines.llamacpp.rows import state_bytes as float32_state
from kvcalc.engines.sglang.capacity import cells, local_state_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec, Recurrent
from kvcalc.units import GIB, MIB

Case = dict[str, Any]
Check = dict[str, Any]
PRINTED = 0.005  # half of the last digit of a size, in GiB or MiB, and of a concurrency
NEEDED_TOLERANCE = 0.006


def capacity_checks(case: Case, folders: Sequence[Path]) -> list[Check]:
    """The checks of one case. Raises KvcalcError with the reason why there are none."""
    if case.get("kind") == "weights_only":
        raise KvcalcError("the log is of the weights only", hint="")
    models, deployment = candidates(case, folders), deployment_of(case)
    if deployment.engine == "llamacpp":
        return _cells(case, models[0], deployment)
    if deployment.engine == "sglang":
        return _slots(case, models[0], deployment)
    return _blocks(case, _as_logged(case, models, deployment), deployment)


def check(name: str, have: float, want: float, tolerance: float, passed: bool | None = None) -> Check:
    """Relative error and tolerance."""
    error = have / want - 1 if want else float(have != want)
    return {
        "name": name,
        "have": have,
        "want": want,
        "error": round(error, 6),
        "tolerance": round(tolerance, 6),
        "passed": abs(error) <= tolerance * (1 + 1e-6) if passed is None else passed,
    }


def _as_logged(case: Case, models: Sequence[ModelSpec], deployment: Deployment) -> ModelSpec:
    """Of the models that a sentence can mean, the one whose blocks are as large as the log's."""
    for model in models:
        if capacity(model, deployment, GIB).block_size == case.get("block_size"):
            return model
    return models[0]


def _blocks(case: Case, model: ModelSpec, deployment: Deployment) -> list[Check]:
    """Tokens, blocks and concurrency. A check passes where the printed figure lies between those of the smallest and
    the largest pool that the log can mean."""
    given, half = _available(case)
    if given is None:
        return [_concurrency_alone(case, model, deployment)]
    low, middle, high = (capacity(model, deployment, max(0, int(given + side * half))) for side in (-1, 0, 1))
    wanted: tuple[tuple[str, str, Callable[[Capacity], float | None], float], ...] = (
        ("kv_tokens", "kv_tokens", lambda held: held.kv_cache_size_tokens, _printed_tokens(case)),
        ("gpu_blocks", "gpu_blocks", lambda held: held.num_blocks, 0),
        ("max_concurrency", "max_concurrency", lambda held: held.max_concurrency(), PRINTED),
    )
    found = []
    for name, field, figure, digit in wanted:
        want, have = case.get(field), figure(middle)
        if want is None or have is None:
            continue
        least, most = (figure(low) or 0) - digit, (figure(high) or 0) + digit
        found.append(check(name, have, want, max(most - have, have - least) / want, least <= want <= most))
    if case.get("block_size") and deployment.engine == "vllm":
        sizes = {group.block_size for pool in middle.pools for group in pool.groups}
        found.append(check("block_size", max(s for s in sizes if s), case["block_size"], 0))
    if not found:
        raise KvcalcError("the log prints no tokens, blocks or concurrency", hint="")
    return found


def _available(case: Case) -> tuple[float | None, float]:
    """Bytes that the log says were there, and how far its rounding reaches."""
    exact = next(
        (match for line in case.get("raw_lines", []) if (match := re.search(r"Allocate (\d+) bytes", line))), None
    )
    if exact:
        return float(exact[1]), 0
    gib = case.get("available_kv_gib")
    if gib is None:
        return None, 0
    share = case.get("log_rounding_tolerance_pct")
    return gib * GIB, (max(PRINTED, gib * share / 100) if share else PRINTED) * GIB


def _printed_tokens(case: Case) -> float:
    """Half of the last digit of a number that the source rounds ("~55k tokens")."""
    if any(re.search(r"~\s*[\d.]+\s*k tokens", line) for line in case.get("raw_lines", [])):
        return 500
    return 0


def _concurrency_alone(case: Case, model: ModelSpec, deployment: Deployment) -> Check:
    """No bytes were printed: of all pools that print these tokens, one must print this concurrency."""
    tokens, want = case.get("kv_tokens"), case.get("max_concurrency")
    if tokens is None or want is None:
        raise KvcalcError("the log prints no memory that was available", hint="")
    block = capacity(model, deployment, GIB).block_bytes

    def printed(blocks: int) -> int:
        return capacity(model, deployment, blocks * block).kv_cache_size_tokens or 0

    first, last = _first(printed, tokens), _first(printed, tokens + 1) - 1
    if last < first:
        return check("kv_tokens", printed(first), tokens, 0)
    least, most = (capacity(model, deployment, n * block).max_concurrency() or 0 for n in (first, last))
    have = (least + most) / 2
    return check(
        "max_concurrency", have, want, (most - least + PRINTED) / want, least - PRINTED <= want <= most + PRINTED
    )


def _first(printed: Callable[[int], int], tokens: int) -> int:
    """The fewest blocks that print at least so many tokens."""
    low, high = 0, 1
    while printed(high) < tokens:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if printed(middle) >= tokens else (middle + 1, high)
    return low


def _slots(case: Case, model: ModelSpec, deployment: Deployment) -> list[Check]:
    """SGLang: tokens of one pool from the bytes it prints, and bytes of the states from their number."""
    stage = frozenset(index for group in model.groups for index in group.layers)
    full, sliding = cells(model, deployment, stage)
    prose = f"{case['id']} {case.get('notes', '')}"
    cell = sliding if sliding and re.search(r"SWA pool", prose) else full
    printed = case.get("kv_size_gb") or sum(case.get(side, 0) for side in ("k_size_gb", "v_size_gb"))
    found = []
    if printed and case.get("kv_tokens"):
        tolerance = max(case.get("log_rounding_tolerance_pct", 0) / 100, PRINTED / printed)
        page = capacity(model, deployment, GIB).block_size or 0  # one page more than the tokens is allocated
        found.append(check("kv_tokens", int(printed * GIB / cell) - page, case["kv_tokens"], tolerance))
    states = case.get("mamba")
    if states:
        mixers = [(group.count, mixer) for group in model.groups for mixer in group.mixers]
        each = sum(n * local_state_bytes(m, model, deployment) for n, m in mixers if isinstance(m, Recurrent))
        want = states["ssm_state_gb"] + states["conv_state_gb"]
        have = (states["max_mamba_cache_size"] + 1) * each / GIB
        found.append(check("state_gib", round(have, 4), want, 2 * PRINTED / want))
    if not found:
        raise KvcalcError("the log prints no size beside its tokens", hint="")
    return found


def _cells(case: Case, model: ModelSpec, deployment: Deployment) -> list[Check]:
    """llama.cpp: bytes of the printed cells in the layers that the line is about, and of the states."""
    types = key_value_types(deployment)
    which = re.search(r"\((?:\d+ )?(full|global|SWA)", case["model"])
    row = 0
    for group in model.groups:
        for mixer in group.mixers:
            windowed = getattr(mixer, "window", None) is not None
            if case.get("config") and which and windowed != (which[1] == "SWA"):
                continue
            row += group.count * row_bytes(mixer, types)
    found = []
    if case.get("size_mib") and case.get("cells"):
        want, streams = case["size_mib"], _streams(case)
        tolerance = max(case.get("log_rounding_tolerance_pct", 0) / 100, PRINTED / want)
        found.append(check("size_mib", round(case["cells"] * streams * row / MIB, 4), want, tolerance))
    line = next((line for line in case.get("raw_lines", []) if "recurrent" in line), "")
    cells_of_state = re.search(r"\((\d+) cells?", line)
    recurrent = [(group.count, m) for group in model.groups for m in group.mixers if isinstance(m, Recurrent)]
    if case.get("recurrent") and cells_of_state and recurrent:
        rollback = re.search(r"(\d+) rollback", case.get("notes", ""))
        drafted = int(rollback[1]) if rollback else 0
        each = sum(count * float32_state(mixer, drafted) for count, mixer in recurrent)
        want = case["recurrent"]["mib"]
        found.append(check("state_mib", round(int(cells_of_state[1]) * each / MIB, 4), want, PRINTED / want))
    if not found:
        raise KvcalcError("the log prints no size of its cells", hint="")
    return found


def _streams(case: Case) -> int:
    """ "4/2 seqs": four sequences in two streams; each stream has all the cells."""
    match = next((m for line in case.get("raw_lines", []) if (m := re.search(r"\d+/(\d+) seqs", line))), None)
    return int(match[1]) if match else 1
