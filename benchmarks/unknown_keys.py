"""Add names of keys to real configs, one at a time: is each read, said with the answer, or refused with a reason?

python benchmarks/unknown_keys.py --configs DIR --facts DIR

DIR of configs holds folders with config.json; DIR of facts the class_defaults.json of the model classes, whose
cache-shaping names are added beside those that strangers' reports showed. Exit code 1: a name passed unmentioned.
"""

import argparse
import copy
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command_line
from class_defaults import SHAPING

from kvcalc.catalog.config.read import read_config
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Source, replace
from kvcalc.specs.model import ModelSpec

CONFIGS = 40
NESTED = ("text_config", "llm_config", "language_config")
# Names that strangers' reports showed passed unread or refused, with values that say something.
REPORTED: dict[str, Any] = {
    "routed_expert_hidden_size": 3584, "latent_moe_use_norm": True, "decoder_sparse_step": 2, "lora_rank": 64,
    "adapter_rank": 64, "conv_dim": 1000, "mtp_share_layers": True, "mamba_d_conv": 3, "use_cla": True,
    "cla_share_factor": 2, "full_attention_interval": 5, "swa_layers": [0, 1], "nope_layers": [0, 1],
    "kda_layers": [1, 2], "use_mla": True, "block_pattern": ["rec", "rec", "attn"], "token_mixer": "gla",
    "mixer_types": ["a", "b"], "linear_attention": True, "yoco": True, "expert_dtype": "junk",
}  # fmt: skip


def names(facts: Path) -> dict[str, Any]:
    """Names and values: what strangers had, and what classes declare, with a value that says something."""
    shaping, found = re.compile("|".join(SHAPING)), dict[str, Any]()
    for entry in json.loads((facts / "class_defaults.json").read_text()).values():
        for name, value in (entry.get("defaults") or {}).items():
            if shaping.search(name) and isinstance(value, bool | int | float | str):
                found[name] = value or found.get(name) or 7
    return found | REPORTED


def read(config: dict[str, Any]) -> ModelSpec:
    return read_config(config, "model", Source(what="a benchmark"))


def outcomes(config: dict[str, Any], added: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each name and what became of it: read, said, refused, or silent (its value is what was read already, or not)."""
    plain = read(config)
    nested = next((key for key in NESTED if isinstance(config.get(key), dict)), None)
    for name, value in added.items():
        changed = copy.deepcopy(config)
        place = changed[nested] if nested else changed
        if name in place or name in changed:
            continue
        place[name] = value
        try:
            model = read(changed)
        except KvcalcError:
            yield name, "refused"
            continue
        said = any(name in assumption.name for assumption in model.assumptions)
        other = replace(model, assumptions=(), doubts=()) != replace(plain, assumptions=(), doubts=())
        yield name, "said" if said else "read" if other else "silent"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", type=command_line.folder, required=True)
    parser.add_argument("--facts", type=command_line.folder, required=True)
    asked = parser.parse_args()
    files = sorted(asked.configs.glob("*/config.json"))
    added, count = names(asked.facts), Counter[str]()
    silent, refused = Counter[str](), Counter[str]()
    for file in files[:: max(1, len(files) // CONFIGS)][:CONFIGS]:
        for name, outcome in outcomes(json.loads(file.read_text()), added):
            count[outcome] += 1
            silent[name] += outcome == "silent"
            refused[name] += outcome == "refused"
    print(f"{len(added)} names, {sum(count.values())} configs with one more: {dict(count)}")
    for title, found in (("silent", silent), ("refused", refused)):
        print(f"{title}: " + ", ".join(f"{name} {times}" for name, times in found.most_common() if times))
    return int(any(silent[name] for name in REPORTED if name not in ("use_mla", "mamba_d_conv")))


if __name__ == "__main__":
    sys.exit(main())
