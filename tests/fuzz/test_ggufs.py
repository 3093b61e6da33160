"""GGUF headers, spoilt as bytes and as values that contradict each other."""

from pathlib import Path
from random import Random

from tests.catalog.gguf_bytes import Q6_K, decoder, gguf
from tests.fuzz.mutation import NUMBERS, TEXTS, octets
from tests.fuzz.trial import counted_model, ran, trials

WORDS = 100  # of the vocabulary: few, so that a file is soon made


def made(random: Random, place: Path) -> Path:
    metadata, tensors = decoder(random.choice([1, 2, 5]), random.choice(["llama", "qwen2", "gemma3", "x"]))
    metadata["tokenizer.ggml.tokens"] = [f"t{i}" for i in range(WORDS)]
    tensors["token_embd.weight"] = ((WORDS, 256), Q6_K)
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
    return path


def trial(random: Random, place: Path) -> str:
    path = made(random, place)
    command = random.choice([["size", "--gpu", "rtx4090", "--engine", "llamacpp"], ["kv"], ["models"],
                             ["step", "--gpu", "l4", "--engine", "llamacpp", "-ngl", "1"]])  # fmt: skip
    return ran([command[0], str(path), *command[1:]])


def read(random: Random, place: Path) -> str:
    return counted_model(made(random, place))


def test_ggufs(tmp_path: Path) -> None:
    trials(trial, tmp_path)
