"""Run in a process of its own with TRITON_INTERPRET=1: the kernels on a CPU, against float64. Prints JSON lines."""

import json
import sys

import torch

from kvcalc.executor.attention import attend_reference
from kvcalc.executor.attention_triton import TritonAttention
from kvcalc.executor.cache import Cache
from kvcalc.executor.glue import Rotary, TorchGlue, TritonGlue
from kvcalc.executor.noise import Noise
from kvcalc.executor.shape import Shape
from kvcalc.results.calibrate import Tiling

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def noise(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attention(
    dtype: str,
    group: int,
    kv_heads: int,
    dim: int,
    page: int,
    window: int | None,
    lengths: list[int],
    splits: int,
    tokens: int,
    device: str = "cpu",
) -> float:
    """Relative error of the kernels, per sequence, against the reference in float64 on the same values."""
    kind = DTYPES[dtype]
    shape = Shape(8, 8, group * kv_heads, kv_heads, dim, 8, (window,))
    cache = Cache(shape, [sum(-(-n // page) for n in lengths) + 3], page, kind, torch.device(device), seed=1)
    cache.fill(Noise(2))
    sequences = [cache.pages.start(n) for n in lengths]
    twin = cache.pages.fork(sequences[-1])
    cache.pages.append(twin)
    sequences.append(twin)
    (view,) = cache.views(len(sequences), -(-max(lengths) // page) + 1)
    cache.show(sequences, [view])
    queries = noise(len(sequences), group * kv_heads, dim, seed=3).to(device, kind)
    keys, values = cache.layers[0]
    attend = TritonAttention(len(sequences), kv_heads, group, torch.device(device), Tiling(tokens=tokens))
    have = attend(queries, keys, values, view, splits).double().flatten(1)
    want = attend_reference(queries.double(), keys.double(), values.double(), view).flatten(1)
    return float(((have - want).norm(dim=1) / want.norm(dim=1)).max())


def read(count: int) -> float:
    """Relative error of the sums of a buffer that no block divides."""
    from kvcalc.executor.microbench import read_alone

    buffer = noise(count, seed=5).to(torch.float32)
    return float((read_alone(buffer).double().sum() - buffer.double().sum()).abs() / buffer.double().abs().sum())


def glue(dtype: str, norms: bool, device: str = "cpu") -> float:
    """Largest difference between the Triton and the PyTorch pieces, relative to the largest value."""
    kind = DTYPES[dtype]
    shape = Shape(96, 8, 4, 2, 24, 80, (None,), qk_norm=norms)
    worst = 0.0
    results = []
    for pieces in (TorchGlue(), TritonGlue()):
        cache = Cache(shape, [6], 16, kind, torch.device(device), seed=4)
        sequences = [cache.pages.start(n) for n in (1, 17, 32)]
        (view,) = cache.views(3, 3)
        cache.show(sequences, [view])
        angle = noise(40, 12, seed=5)
        rotary = Rotary(angle.cos().to(device, kind), angle.sin().to(device, kind), 1e-5)
        x, delta = noise(3, 96, seed=6).to(device, kind), noise(3, 96, seed=7).to(device, kind)
        normed = pieces.norm(x, delta, noise(96, seed=8).to(device, kind), 1e-5)
        gains = (noise(24, seed=9).to(device, kind), noise(24, seed=10).to(device, kind)) if norms else None
        qkv = noise(3, 8 * 24, seed=11).to(device, kind)
        queries = pieces.rotary(qkv, rotary, gains, cache.layers[0], view, shape)
        gated = pieces.gate(noise(3, 160, seed=12).to(device, kind))
        results.append([x, normed, queries, cache.pools[0], gated])
    for ours, theirs in zip(*results, strict=True):
        worst = max(worst, float((ours.double() - theirs.double()).abs().max() / ours.double().abs().max()))
    return worst


def main() -> None:
    for case in json.load(sys.stdin):
        kind = case.pop("kind")
        error = {"attention": attention, "glue": glue, "read": read}[kind](**case)
        print(json.dumps({"kind": kind, "error": error, **case}), flush=True)


if __name__ == "__main__":
    main()
