"""Write catalog/config/families/class_defaults.json anew: what each configuration class of transformers declares.

python benchmarks/class_defaults.py        (needs the transformers package; nothing of a model is loaded)

An absent key of a config.json means what its class declares. Only keys that kvcalc's catalog names, or that look as
if they shaped a cache, are kept.
"""

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CATALOG = Path(__file__).parents[1] / "kvcalc" / "catalog"
TARGET = CATALOG / "config" / "families" / "class_defaults.json"
# What keys that shape a cache are called.
SHAPING = (
    "window", "kv_", "_kv", "kv$", "cache", "layer_types?$", "block_types?$", "attn_type", "attention_type",
    "attention_layers", "num_.*heads", "n_heads?$", "head_(dim|size)", "lora_rank", "latent", "state_size", "d_state",
    "conv_(kernel|dim)", "d_conv", "^ssm", "mamba", "compress", "^index", "sparse", "linear_attn", "linear_num",
    "hybrid", "layer_pattern", "attention_pattern", "attn_pattern", "shared?_layers", "recurren", "loop", "every_n",
    "attn_layer", "attention_chunk", "local_attention", "global_attention", "memory_(size|tokens|layers)",
    "block_configs",
)  # fmt: skip
WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def main() -> int:
    import transformers

    names = set(named_keys())
    shaping = re.compile("|".join(SHAPING))
    classes = {}
    common = {field.name for field in dataclasses.fields(transformers.PreTrainedConfig)} - {"tie_word_embeddings"}
    for model_type, config_class in sorted(transformers.CONFIG_MAPPING.items()):
        said = dict(declared(config_class))
        if "vocab_size" in said or "text_config" in said:  # it has a language model
            classes[model_type] = {
                key: value for key, value in said.items() if key not in common and (key in names or shaping.search(key))
            }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(said)}" for name, said in classes.items())
    source = f"transformers {transformers.__version__}: what each configuration class declares"
    TARGET.write_text(f'{{"source": {json.dumps(source)},\n"classes": {{\n{lines}\n}}}}\n', encoding="utf-8")
    return 0


def named_keys() -> Iterator[str]:
    """Every word in the catalog's code and tables: the keys that it may ask for are among them."""
    for path in CATALOG.rglob("*"):
        if path.suffix in (".py", ".toml"):
            yield from WORD.findall(path.read_text(encoding="utf-8"))


def declared(config_class: type) -> Iterator[tuple[str, Any]]:
    """Fields with a plain default; a nested config or a computed value is none."""
    for field in dataclasses.fields(config_class) if dataclasses.is_dataclass(config_class) else ():
        value = field.default
        if callable(field.default_factory):
            value = field.default_factory()
        if isinstance(value, list | tuple):
            value = list(value)
            if len(value) > 64 or not all(isinstance(entry, int | float | str) for entry in value):
                continue
        if value is None or isinstance(value, bool | int | float | str | list):
            yield field.name, value


if __name__ == "__main__":
    sys.exit(main())
