"""The context that an engine settles on where nobody asks for one: as long as memory leaves room for.

Source: common_fit_params in ggml-org/llama.cpp, common/fit.cpp (pull request 16653); figures in `llamacpp/memory.toml`,
[length]
"""

import re
from typing import NamedTuple

from kvcalc.engines import capacity, loaded_weight_bytes, memory_before_cache, rules
from kvcalc.engines.capacity import length_of
from kvcalc.engines.memory.data import memory_constants
from kvcalc.specs.base import Assumption
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB


class Lowered(NamedTuple):
    """A context that the engine chose."""

    tokens: int  # of one sequence
    assumption: Assumption


CELLS = 256  # contexts come in multiples of this
_BUILD = re.compile(r"b(\d+)\Z")


def lowered_length(model: ModelSpec, gpu: GpuSpec, deployment: Deployment) -> Lowered | None:
    """The longest context where the model's own maximum does not fit and none was asked for; None: nothing is lowered.

    Builds before the rule took a fixed length. Of the pool's range the low end is what surely has room.

    Raises:
        KvcalcError: the model does not divide by the layout, or the engine has no rule for it.
    """
    longest = model.max_context
    asked = deployment.max_model_len is not None or deployment.kv_memory_bytes is not None
    if asked or longest is None or not rules(deployment.engine).LOWERS_LENGTH:
        return None
    rule = memory_constants(deployment.engine)["length"]
    build = _BUILD.match(deployment.engine_version or "")
    if build and int(build[1]) < rule["since"]:
        why = f"what builds before b{rule['since']} take where nothing is said"
        return _said(rule["before"], why) if longest > rule["before"] else None
    budget = memory_before_cache(model, gpu, deployment, loaded_weight_bytes(model, deployment, gpu))
    if budget.pool is None or budget.pool_given:
        return None
    room = max(0, min(budget.pool.low, budget.pool.value - int(rule["margin_gib"] * GIB)))
    held = capacity(model, deployment, room).estimated_max_model_len(length_of(model, deployment) or longest)
    if held >= longest or held < rule["least"]:
        return None
    why = f"not asked for: lowered from the model's {longest:,} until {rule['margin_gib']:g} GiB stays free"
    return _said(held // CELLS * CELLS, f"{why} ({rule['evidence']})")


def _said(tokens: int, why: str) -> Lowered:
    return Lowered(tokens, Assumption(name="max_model_len", value=tokens, why=why))
