"""What a deployment that takes no images or sounds leaves out of a model."""

import json
from collections.abc import Mapping

from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec

TOWERS = {"vision": ("image", "video"), "audio": ("audio",)}
SINCE = "vLLM builds no tower whose inputs are all limited to none (vllm/model_executor/models/interfaces.py)"


def without_towers(model: ModelSpec, deployment: Deployment) -> ModelSpec:
    """The model without the towers that `--language-model-only` and `--limit-mm-per-prompt` leave no input for.

    Raises KvcalcError for limits that cannot be read.
    """
    limits = limits_of(deployment.limit_mm_per_prompt) if deployment.limit_mm_per_prompt else {}
    gone = set(TOWERS) if deployment.language_model_only else {kind for kind in TOWERS if _no_input(kind, limits)}
    kept = tuple(tower for tower in model.towers if tower.kind not in gone)
    if kept == model.towers:
        return model
    named = ", ".join(sorted({tower.kind for tower in model.towers} & gone))
    taken = Assumption(name="towers", value=None, why=f"the {named} tower is not loaded: {SINCE}")
    return replace(model, towers=kept, weight_file_bytes=None, assumptions=(*model.assumptions, taken))


def limits_of(text: str) -> Mapping[str, int]:
    """
    >>> limits_of("image=0,video=1"), limits_of('{"image": 2}')
    ({'image': 0, 'video': 1}, {'image': 2})
    """
    try:
        pairs = json.loads(text) if text.lstrip().startswith("{") else dict(p.split("=") for p in text.split(","))
        return {str(kind): int(count) for kind, count in pairs.items()}
    except (ValueError, TypeError, AttributeError):
        hint = "write image=0,video=0"
        raise KvcalcError(f"--limit-mm-per-prompt: {text[:60]!r} is no list of limits", hint) from None


def _no_input(kind: str, limits: Mapping[str, int]) -> bool:
    """The first kind of input must be limited to none; of the others, those that are limited at all."""
    first, *others = TOWERS[kind]
    return limits.get(first) == 0 and all(limits.get(one, 0) == 0 for one in others)
