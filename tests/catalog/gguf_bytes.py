"""GGUF files without their data, written byte by byte as ggml's gguf.md has them."""

import struct
from typing import Any

F32, F16, Q8_0, Q4_K, Q6_K, MXFP4 = 0, 1, 8, 12, 14, 39
BYTES = {F32: (1, 4), F16: (1, 2), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210), MXFP4: (32, 17)}  # ggml.h
Shape = tuple[int, ...]


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def value(item: Any) -> bytes:
    """A typed value: bool, int (u32), float (f32), str, or a list of one of them."""
    if isinstance(item, bool):
        return struct.pack("<I?", 7, item)
    if isinstance(item, int):
        return struct.pack("<II", 4, item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    inner = b"".join(value(one)[4:] for one in item)
    return struct.pack("<I", 9) + value(item[0])[:4] + struct.pack("<Q", len(item)) + inner


def gguf(metadata: dict[str, Any], tensors: dict[str, tuple[Shape, int]], order: str = "<") -> bytes:
    """A file without its data: shapes are (outputs, inputs)."""
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    data += b"".join(text(key) + value(item) for key, item in metadata.items())
    for name, (shape, kind) in tensors.items():
        data += text(name) + struct.pack("<I", len(shape))
        data += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, 0)
    return data


def size(tensors: dict[str, tuple[Shape, int]]) -> int:
    total = 0
    for shape, kind in tensors.values():
        count = 1
        for n in shape:
            count *= n
        block, width = BYTES[kind]
        total += count // block * width
    return total


def decoder(layers: int, arch: str = "llama", **more: Any) -> tuple[dict[str, Any], dict[str, tuple[Shape, int]]]:
    """A small decoder: 256 wide, 4 query heads and 2 key-value heads of 64, MLP of 512."""
    metadata = {
        "general.architecture": arch, f"{arch}.block_count": layers, f"{arch}.embedding_length": 256,
        f"{arch}.attention.head_count": 4, f"{arch}.attention.head_count_kv": 2, f"{arch}.context_length": 4096,
        "tokenizer.ggml.tokens": [f"t{i}" for i in range(5000)], "general.file_type": 15,
    }  # fmt: skip
    metadata |= {f"{arch}.{key}": item for key, item in more.items()}
    tensors: dict[str, tuple[Shape, int]] = {
        "token_embd.weight": ((5000, 256), Q6_K),
        "output_norm.weight": ((256,), F32),
    }
    for i in range(layers):
        for name, shape, kind in (
            ("attn_q", (256, 256), Q4_K), ("attn_k", (128, 256), Q4_K), ("attn_v", (128, 256), Q6_K),
            ("attn_output", (256, 256), Q4_K), ("ffn_gate", (512, 256), Q4_K), ("ffn_up", (512, 256), Q4_K),
            ("ffn_down", (256, 512), Q6_K), ("attn_norm", (256,), F32), ("ffn_norm", (256,), F32),
        ):  # fmt: skip
            tensors[f"blk.{i}.{name}.weight"] = (shape, kind)
    return metadata, tensors
