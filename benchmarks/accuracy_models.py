"""Parameters, cache and state of real configs against exact counts and measured caches; file sizes against published.

python benchmarks/accuracy_models.py --configs DIR --facts DIR [--json]
"""

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import command_line

from kvcalc.catalog.config.read import read_config
from kvcalc.catalog.files.jsonfile import read_json
from kvcalc.counting.cache import cache_profile
from kvcalc.counting.params import total_parameters
from kvcalc.counting.weights import weight_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Source, replace
from kvcalc.specs.model import ModelSpec, Recurrent

Facts = dict[str, Any]
EXPLAINED = Path(__file__).with_name("explained_models.toml")
FIGURES = ("parameters", "kv_bytes_per_token", "fixed_bytes_per_sequence")


def main() -> int:
    parser = command_line.parser(__doc__)
    parser.add_argument("--configs", type=command_line.folder, required=True, help="folders of config.json files")
    parser.add_argument("--facts", type=command_line.folder, required=True, help="exact counts and measured caches")
    flags = parser.parse_args()
    models = list(rows(flags.configs, flags.facts))
    published = list(published_rows(flags.configs, flags.facts))
    result = {"models": models, "published": published, "summary": summary(models, published)}
    if flags.json:
        command_line.print_json(result)
    else:
        show(result)
    return 0


def rows(configs: Path, facts: Path) -> Iterator[Facts]:
    """One row for each folder."""
    counts, caches = _merged(facts, "param_counts"), _merged(facts, "kv_measured")
    reasons = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))
    for folder in sorted(configs.iterdir()):
        if folder.is_dir():
            yield _row(folder, counts.get(folder.name, {}), caches.get(folder.name, {}), reasons.get(folder.name, ""))


def _merged(facts: Path, stem: str) -> Facts:
    found: Facts = {}
    for path in sorted(facts.glob(f"{stem}*.json")):
        if "window" not in path.name:  # measured beyond the window: another quantity
            found.update(json.loads(path.read_text(encoding="utf-8")))
    return found


def _row(folder: Path, count: Facts, cache: Facts, reason: str) -> Facts:
    want = {
        "parameters": count.get("total_params"),
        "kv_bytes_per_token": cache.get("measured_bytes_per_token"),
        "fixed_bytes_per_sequence": cache.get("measured_fixed_bytes"),
    }
    try:
        model = read_folder(folder)
        have = _cache_figures(model, cache)
    except KvcalcError as error:
        figures = {name: {"have": None, "want": value} for name, value in want.items()}
        return {"name": folder.name, "status": "refused", **figures, "reason": error.message}
    figures = {"parameters": {"have": total_parameters(model), "want": want["parameters"]}} | have
    wrong = [name for name, one in figures.items() if one["want"] not in (None, one["have"])]
    status = "exact" if not wrong else "explained" if reason else "wrong"
    return {
        "name": folder.name,
        "status": status,
        **figures,
        "reason": reason if wrong and reason else ", ".join(wrong),
    }


def read_folder(folder: Path, quantization: Facts | None = None) -> ModelSpec:
    """The model of a folder, by its config and quantization file alone; or of the same shape, quantized otherwise."""
    if not (folder / "config.json").exists():
        raise KvcalcError("the folder has no config.json", hint="add it")
    config, quant = read_json(folder / "config.json", folder.name), folder / "hf_quant_config.json"
    if quantization is not None:
        config["quantization_config"] = quantization
    own = read_json(quant, folder.name) if quant.exists() and quantization is None else None
    return read_config(config, folder.name, Source(what="config.json"), own)


def _cache_figures(model: ModelSpec, cache: Facts) -> Facts:
    """Growth while windows fill, and state, of as many layers as were measured; bf16 cache, as measured."""
    built = sum(cache.get("kinds", {}).values())
    layers = range(built) if 0 < built < model.layers else None
    sixteen = replace(model, dtype="bf16")
    profile = cache_profile(sixteen, "bf16", layers=layers)
    growth, fixed = cache.get("measured_bytes_per_token"), cache.get("measured_fixed_bytes")
    if fixed is not None:
        fixed -= _last_columns(model, layers)
    return {
        "kv_bytes_per_token": {"have": profile.bytes_per_token_at_start, "want": growth},
        "fixed_bytes_per_sequence": {"have": profile.fixed_bytes, "want": fixed},
    }


def _last_columns(model: ModelSpec, layers: Iterable[int] | None) -> int:
    """transformers keeps K columns of a convolution, engines and kvcalc K − 1: one column of 16-bit elements."""
    chosen = None if layers is None else set(layers)
    columns = 0
    for group in model.groups:
        count = group.count if chosen is None else len(chosen.intersection(group.layers))
        columns += count * sum(mixer.conv_channels for mixer in group.mixers if isinstance(mixer, Recurrent))
    return 2 * columns


def published_rows(configs: Path, facts: Path) -> Iterator[Facts]:
    """Published sizes of models whose config is here; the others are listed without one."""
    path = facts / "known_facts.json"
    if not path.exists():
        return
    folders = {folder.name: folder for folder in sorted(configs.iterdir()) if (folder / "config.json").exists()}
    table = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))
    for fact in json.loads(path.read_text(encoding="utf-8")):
        place = {} if fact["model"] in table["not_compared"] else _place(fact["model"], folders, table["published"])
        folder = folders.get(place.get("config", ""))
        row = {"model": fact["model"], "kind": fact["kind"], "want": fact["value"], "config": folder and folder.name}
        if folder is None:
            yield row | {"have": None, "reason": table["not_compared"].get(fact["model"], "no config here")}
            continue
        model = read_folder(folder, place.get("quantization"))
        counts = fact["kind"] == "total_params"
        yield row | {"have": total_parameters(model) if counts else published_bytes(model, fact)}


def _place(model: str, folders: Iterable[str], table: Facts) -> Facts:
    """The folder of a published model's shape, and its scheme where the folder's is another: the table's, or by name.

    "owner/name (bf16)" is the folder owner__name, "name" that of any owner; bf16 says that nothing is quantized.
    """
    if model in table:
        return {"config": table[model]} if isinstance(table[model], str) else table[model]
    name, _, said = model.replace("/", "__").partition(" ")
    found = next((folder for folder in folders if name in (folder, folder.partition("__")[2])), "")
    return {"config": found} | ({"quantization": {}} if "bf16" in said.lower() else {})


def published_bytes(model: ModelSpec, fact: Facts) -> int:
    """Bytes of the file: conversions to MLX leave the multi-token-prediction layers out, as their sizes say."""
    return weight_bytes(replace(model, mtp=()))


def summary(models: list[Facts], published: list[Facts]) -> Facts:
    found: Facts = {"models": len(models), "status": dict(Counter(row["status"] for row in models))}
    for name in FIGURES:
        known = [row[name] for row in models if row[name]["want"] is not None]
        exact = sum(one["have"] == one["want"] for one in known)
        found[name] = {"exact": exact, "counted" if name == "parameters" else "measured": len(known)}
    with_config = [row for row in published if row["config"]]
    found["published"] = {
        "exact": sum(row["have"] == row["want"] for row in with_config),
        "with_config": len(with_config),
        "without_config": len(published) - len(with_config),
    }
    return found


def show(result: Facts) -> None:
    for row in result["models"]:
        if row["status"] != "exact":
            print(f"{row['status']:10}{row['name']}: {row['reason']}")
            for name in FIGURES:
                if row[name]["want"] not in (None, row[name]["have"]):
                    print(f"{'':12}{name}: have {row[name]['have']}, want {row[name]['want']}")
    for row in result["published"]:
        if row["config"] and row["have"] != row["want"]:
            print(f"published {row['model']}: have {row['have']}, want {row['want']}")
    print(json.dumps(result["summary"]))


if __name__ == "__main__":
    sys.exit(main())
