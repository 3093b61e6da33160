"""Models found by architecture search (Nemotron-NAS, DeciLM): each block says its own attention and MLP."""

from kvcalc.catalog.config.families.plan_layer import Layer
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError


def read_blocks(keys: Keys, count: int) -> list[Layer] | None:
    """One layer for each entry of `block_configs`, or None where the config has no such list."""
    blocks = keys.children("block_configs")
    if blocks is None:
        return None
    if len(blocks) < count:
        raise KvcalcError(
            f"{keys.path('block_configs')} has {len(blocks)} entries for {count} layers",
            hint="give one entry for each layer",
        )
    return [_layer(keys, block) for block in blocks[:count]]


def _layer(keys: Keys, block: Keys) -> Layer:
    attention, ffn = block.child("attention"), block.child("ffn")
    if attention is None or ffn is None:
        raise KvcalcError(f"{block.path('attention')} or ffn is missing", hint="give both for each block")
    said: dict[str, object] = {}
    mixer = _replaced(attention)
    if mixer == "full":
        group = attention.integer("n_heads_in_group")
        if group is not None:
            said["num_key_value_heads"] = max(1, keys.need("num_attention_heads") // group)
        if attention.has("num_key_value_heads"):
            said["num_key_value_heads"] = attention.need("num_key_value_heads")
        if attention.has("window_length"):
            said["sliding_window"] = attention.need("window_length")
            mixer = "sliding"
    mlp = _replaced(ffn)
    if mlp == "full":
        width = ffn.integer("intermediate_size") or _width(ffn.number("ffn_mult"), keys.need("hidden_size"))
        if width:
            said["intermediate_size"] = width
        mlp = "dense"
    return Layer(mixer=mixer, mlp=mlp, says=tuple(sorted(said.items())))


def _replaced(part: Keys) -> str:
    """none where there is nothing, linear where one matrix stands for the whole, else full."""
    if part.flag("no_op"):
        return "none"
    return "linear" if part.flag("replace_with_linear") else "full"


def _width(factor: float | None, hidden: int) -> int:
    """Two thirds of factor × hidden × 2, rounded up to 256; nought where the block says no factor."""
    return 0 if factor is None else -(-int(2 * factor * hidden / 3) // 256) * 256
