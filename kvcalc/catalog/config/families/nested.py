"""Where in a config the text decoder is, and what it needs to know of the parts beside it."""

from collections.abc import Mapping

from kvcalc.catalog.config.families.table import traits_of
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError

SIZES = ("hidden_size", "num_hidden_layers", "d_model", "n_embd")
NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "decoder")


def text_decoder(root: Keys, family: str) -> tuple[Keys, str]:
    """The keys of the text decoder and its model_type.

    Raises KvcalcError where a model with towers says nothing of its decoder: the class's own choice is seldom meant.
    """
    thinker = root.child("thinker_config")
    nested = (root if thinker is None else thinker).child(*NESTED)
    expected = traits_of(family).text
    if nested is not None:
        return nested, nested.text("model_type") or expected or family
    only = _only_vocabulary(root)
    if only is not None:
        return only, only.text("model_type") or expected or family
    if expected and not any(root.given(name) for name in SIZES):
        raise KvcalcError("the config says nothing of its text decoder", hint="add its text_config")
    return root, expected or family


def _only_vocabulary(root: Keys) -> Keys | None:
    """The one nested config with a vocabulary and layers, where the whole has neither."""
    if any(root.given(name) for name in SIZES):
        return None
    found = [name for name in root.names() if _is_decoder(root.value(name))]
    if len(found) != 1:
        return None
    root.doubt(found[0], "taken for the text decoder's config: no other has a vocabulary and layers")
    return root.child(found[0])


def _is_decoder(value: object) -> bool:
    return isinstance(value, Mapping) and "vocab_size" in value and any(name in value for name in SIZES)


def encoder_keys(root: Keys, decoder: Keys) -> Keys:
    """The encoder's keys: its own where the config nests them, else the same as the decoder's."""
    return root.child("encoder") or decoder


def image_tokens(root: Keys) -> int:
    """Positions of one image as cross-attention reads them: every patch and the class token, of every tile."""
    vision = root.child("vision_config")
    if vision is None:
        return 0
    side = (vision.integer("image_size") or 0) // (vision.integer("patch_size") or 1)
    return (side * side + 1) * (vision.integer("max_num_tiles") or 1)
