"""GGUF headers, spoilt as bytes and as values that contradict each other."""

from pathlib import Path
from random import Random

from tests.catalog.gguf_bytes import decoder, gguf
from tests.fuzz.mutation import NUMBERS, TEXTS, octets
from tests.fuzz.trial import ran, trials


def trial(random: Random, place: Path) -> str:
    metadata, tensors = decoder(random.choice([1, 2, 5]), random.choice(["llama", "qwen2", "gemma3", "x"]))
    for _ in range(random.choice([0, 0, 1, 2])):
        key = random.choice(list(metadata))
        metadata[key] = random.choice([0, 1, 3, 2**31, 1.5, "x", True, [1, 2], ["a"], 7, 256, 5000])
    for _ in range(random.choice([0, 0, 1, 2])):
        name = random.choice(list(tensors))
        shape, kind = tensors[name]
        other = tuple(abs(int(random.choice(NUMBERS))) % 2**63 for _ in range(random.choice([0, 1, 2, 3, 5])))
        tensors[random.choice([name, random.choice(TEXTS).encode("utf-8", "replace").decode()])] = (
            random.choice([shape, other]), random.choice([kind, 0, 1, 12, 99, 2**31])
        )  # fmt: skip
    data = gguf(metadata, tensors, random.choice("<<<>"))
    path = place / "model.gguf"
    path.write_bytes(octets(random, data) if random.random() < 0.6 else data)
    command = random.choice([["size", "--gpu", "rtx4090", "--engine", "llamacpp"], ["kv"], ["models"],
                             ["step", "--gpu", "l4", "--engine", "llamacpp", "-ngl", "1"]])  # fmt: skip
    return ran([command[0], str(path), *command[1:]])


def test_ggufs(tmp_path: Path) -> None:
    trials(trial, tmp_path)
