"""What had to be taken for granted: listed with every answer."""

from collections.abc import Iterator

from kvcalc.catalog.config.families.kinds import PERIODS
from kvcalc.catalog.config.families.mlp import TOP_K
from kvcalc.catalog.config.families.sparse import EXPERTS
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.specs.base import Assumption

# Keys that say which layers have a window.
WHERE = ("layer_types", "swa_layers", "sliding_window_layers", "sliding_window_layout", *PERIODS)


def said_dtype(root: Keys, keys: Keys) -> str | None:
    """The dtype of weights that no quantization covers, if the config says it."""
    said = root.text("dtype", "torch_dtype") or keys.text("dtype", "torch_dtype")
    return None if said == "auto" else said


def _placed(keys: Keys) -> bool:
    """Whether a key says which layers have the window."""
    return any(keys.value(name) is not None for name in WHERE) or isinstance(keys.value("sliding_window"), list)


def taken(root: Keys, keys: Keys, traits: Traits, model_type: str) -> Iterator[Assumption]:
    """The assumptions that reading these keys rests on."""
    if said_dtype(root, keys) is None:
        yield Assumption(name="dtype", value="bf16", why="the config does not say the dtype of its weights")
    if not traits.known:
        yield Assumption(
            name="architecture",
            value=model_type[:100] or None,
            why="a model_type that kvcalc has not met: read by its keys, without biases that they do not say",
        )
        if keys.truth("sliding_window") and keys.raw("use_sliding_window") is None and not _placed(keys):
            yield Assumption(
                name="sliding_window",
                value=keys.integer("sliding_window"),
                why="no key says which layers have the window: taken for all of them, as vLLM does",
            )
    if traits.assume:
        yield Assumption(name="attention", value=model_type, why=traits.assume)
    if traits.source == "source_tokens":
        yield Assumption(
            name="image_tokens",
            value=keys.integer("source_tokens"),
            why="one image of as many tiles as the tower takes",
        )
    elif traits.cross:
        yield Assumption(name="encoder_tokens", value=None, why="an input as long as the encoder takes")
    if (keys.integer(*EXPERTS, least=0) or 0) > 1 and keys.raw("is_moe") is not False and not keys.has(*TOP_K):
        yield Assumption(name="experts_per_token", value=None, why="the config does not say how many: all are counted")
