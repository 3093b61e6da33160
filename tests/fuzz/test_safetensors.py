"""Headers of checkpoints beside a config, spoilt."""

import json
from math import prod
from pathlib import Path
from random import Random

from tests.catalog.headers.test_settle import CONFIG, tensors
from tests.fuzz.mutation import octets, structure
from tests.fuzz.trial import counted_model, ran, trials


def made(random: Random, place: Path) -> None:
    header = {name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 2 * prod(shape)]}
              for name, shape in tensors().items()}  # fmt: skip
    spoilt = json.dumps(structure(random, header)).encode("utf-8", "surrogatepass")
    size = random.choice([len(spoilt)] * 6 + [0, 1, 2**63, 10**9])
    data = size.to_bytes(8, "little") + spoilt
    (place / "model.safetensors").write_bytes(octets(random, data) if random.random() < 0.4 else data)
    (place / "config.json").write_text(json.dumps(CONFIG))
    index = place / "model.safetensors.index.json"
    index.unlink(missing_ok=True)
    if random.random() < 0.3:
        whole = {"metadata": {"total_size": 1000}, "weight_map": dict.fromkeys(tensors(), "model.safetensors")}
        index.write_text(json.dumps(structure(random, whole)))


def trial(random: Random, place: Path) -> str:
    made(random, place)
    return ran([random.choice(["kv", "models"]), str(place)])


def read(random: Random, place: Path) -> str:
    made(random, place)
    return counted_model(place)


def test_safetensors(tmp_path: Path) -> None:
    trials(trial, tmp_path)
