"""What goes wrong in files and lines: each function changes something, by a seeded generator."""

import json
from random import Random
from typing import Any

NUMBERS = [0, -1, 1, 2, 7, 0.5, -0.0, 1e-300, 1e308, 10**15, 10**18, 2**31, 2**63, 2**64 - 1, -(2**63), 10**40]
TEXTS = [
    "", " ", "\t", "0", "-1", "1e999", "nan", "inf", "8.5K", "8K", "50GB", "1GiB", "30ms", "-5s", "true", "null",
    "auto", "../../etc/passwd", "/dev/null", "~", "a/b@c", "x" * 300, "\x1b[2J", "\x00", "\u202e", "\ud800", "é",
    "=cmd()", "|x|", "bf16", "fp8", "nvfp4", "q4_k_m", "vllm", "sglang", "trtllm", "llamacpp", "ideal", "llama-3-8b",
    "h100-sxm", "%s", "{}", "[]", "$HOME", "`x`", "# no", "'", '"', "\\", "a\nb", "2026-13-45", "2999-01-01",
    "full_attention",
]  # fmt: skip


def value(random: Random, depth: int = 0) -> Any:
    """Something that nobody expects there."""
    kind = random.randrange(10 if depth < 3 else 5)
    if kind < 2:
        return random.choice(NUMBERS)
    if kind < 4:
        return random.choice(TEXTS)
    if kind == 4:
        return random.choice([None, True, False, float("nan"), float("inf")])
    if kind < 7:
        return [value(random, depth + 1) for _ in range(random.choice([0, 1, 2, 5]))]
    if kind < 9:
        return {random.choice(TEXTS): value(random, depth + 1) for _ in range(random.choice([0, 1, 3]))}
    return [random.choice(NUMBERS)] * random.choice([100] * 9 + [5000])


def structure(random: Random, data: Any, times: int | None = None) -> Any:
    """JSON or TOML with some values and keys exchanged, doubled or left out; what is given stays as it is."""
    data = json.loads(json.dumps(data))
    for _ in range(times or random.choice([1, 1, 1, 2, 3, 6])):
        places = list(_places(data))
        if not places:
            return data
        holder, key = random.choice(places)
        action = random.randrange(8)
        if action < 2:
            holder[key] = value(random)
        elif action == 2:
            del holder[key]
        elif action < 6 and isinstance(holder[key], int | float):
            holder[key] = random.choice(
                [holder[key] * 2, -holder[key], holder[key] + 1, holder[key] / 3, str(holder[key])]
            )
        elif action == 6 and isinstance(holder, dict):
            holder[random.choice(TEXTS)] = holder.pop(key)
        else:
            other, name = random.choice(places)
            if name in other if isinstance(other, dict) else name < len(other):
                holder[key] = json.loads(json.dumps(other[name]))
    return data


def _places(data: Any) -> Any:
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, one in list(pairs):
        yield data, key
        yield from _places(one)


def text(random: Random, whole: str, times: int | None = None) -> str:
    """Text with pieces cut out, doubled, moved, or exchanged for odd ones."""
    for _ in range(times or random.choice([1, 1, 2, 4, 8])):
        start = random.randrange(len(whole) + 1)
        end = min(len(whole), start + random.choice([0, 1, 2, 8, 30, 200]))
        action = random.randrange(6)
        if action == 0:
            whole = whole[:start] + whole[end:]
        elif action == 1:
            whole = whole[:end] + whole[start:end] * random.choice([1, 2, 50]) + whole[end:]
        elif action == 2:
            whole = whole[:start] + str(random.choice(NUMBERS)) + whole[end:]
        elif action == 3:
            whole = whole[:start] + random.choice(TEXTS) + whole[end:]
        elif action == 4:
            whole = whole[:start] + "".join(chr(random.choice([random.randrange(128), random.randrange(0xD7FF)]))
                                            for _ in range(random.choice([1, 3, 20]))) + whole[end:]  # fmt: skip
        else:
            whole = _number_changed(random, whole)
    return whole


def _number_changed(random: Random, whole: str) -> str:
    digits = [i for i, one in enumerate(whole) if one.isdigit()]
    if not digits:
        return whole
    start = end = random.choice(digits)
    while end < len(whole) and whole[end].isdigit():
        end += 1
    return whole[:start] + str(random.choice(NUMBERS)) + whole[end:]


def octets(random: Random, whole: bytes) -> bytes:
    """Bytes flipped, cut off, doubled, or overwritten with the largest and smallest of numbers."""
    data = bytearray(whole)
    for _ in range(random.choice([1, 1, 2, 4, 16])):
        at = random.randrange(len(data) or 1)
        action = random.randrange(6)
        if action == 0 and data:
            data[at % len(data)] ^= 1 << random.randrange(8)
        elif action == 1:
            del data[at:]
        elif action == 2:
            size = random.choice([1, 2, 4, 8])
            data[at : at + size] = random.choice([b"\0", b"\xff", b"\x7f", b"\x80"]) * size
        elif action == 3:
            data[at:at] = random.randbytes(random.choice([1, 4, 100]))
        elif action == 4:
            del data[at : at + random.choice([1, 4, 8, 50])]
        else:
            data[at : at + 8] = random.randrange(2**20).to_bytes(8, "little")
    return bytes(data)
