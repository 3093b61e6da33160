"""What no command prints, on the device itself, for gpu_check.sh: memory point by point, graph against plain tokens,
the three ways to read, and attention at three sizes for every tiling. Writes what it has after each part.

    python benchmarks/gpu_probe.py OUT.json [--device cuda] [--small]
"""

import argparse
import gc
import json
import time
from pathlib import Path
from typing import Any

from kvcalc.executor import microbench
from kvcalc.executor.attention_triton import tilings
from kvcalc.executor.cache import Cache
from kvcalc.executor.device import Device, open_device
from kvcalc.executor.loop import Decoder, Manner, captured
from kvcalc.executor.microbench_layer import KV_HEADS, AttentionSteps, Heads
from kvcalc.executor.points import same_tokens
from kvcalc.executor.quiet import Patience
from kvcalc.executor.shape import Shape
from kvcalc.executor.timing import Bench
from kvcalc.executor.weights import random_weights

HEADS = Heads("bf16", 4, 128, 64)
SIZES = ((2, 8192), (20, 8192), (128, 8192))  # four KV heads take 2 KiB a token: 0.03, 0.3 and 2.1 GB a call
SMALL_SIZES = ((1, 64), (2, 64), (3, 64))
POINTS = ((1, 512), (8, 2048), (32, 2048))
SMALL_POINTS = ((1, 20), (2, 33))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("out", type=Path)
    asked.add_argument("--device", default="cuda")
    asked.add_argument("--small", action="store_true")
    given = asked.parse_args()
    device = open_device(given.device)
    import torch

    found: dict[str, Any] = {"device": device.name, "versions": device.versions(), "state": device.state()}
    bench = Bench(device, Patience(0))
    with torch.inference_mode():
        for name, part in (("points", points), ("read_bytes_per_s", reads), ("attention", attention)):
            found[name] = part(bench, given.small)
            given.out.write_text(json.dumps(found, indent=2), encoding="utf-8")


def points(bench: Bench, small: bool) -> list[dict[str, Any]]:
    """Decoders one after the other: what is held after each is gone, and whether the graph's tokens are the step's."""
    import torch

    device = bench.device
    shape = (
        Shape(256, 512, 8, 2, 32, 512, (None,) * 2) if small else Shape(4096, 128256, 32, 8, 128, 14336, (None,) * 8)
    )
    dtype = torch.bfloat16
    weights = random_weights(shape, dtype, device.torch)
    found = []
    for batch, context in SMALL_POINTS if small else POINTS:
        cache = Cache(shape, [batch * -(-context // 64)], 64, dtype, device.torch)
        cache.fill(microbench.drawn())
        decoder = Decoder(weights, cache, device, batch, context, Manner())
        decoder.place(cache.pages.start(context) for _ in range(batch))
        same = same_tokens(decoder, captured(decoder.step, device))
        held = allocated(device)
        del cache, decoder
        gc.collect()
        one = {"batch": batch, "context": context, "same_tokens": same, "held_bytes": held}
        found.append({**one, "left_bytes": allocated(device)})
    return found


def allocated(device: Device) -> int | None:
    """Of PyTorch's on a GPU."""
    import torch

    return torch.cuda.memory_allocated(device.index) if device.is_gpu else None


def reads(bench: Bench, small: bool) -> dict[str, float]:
    """By a sum, a copy of one half onto the other, and an own kernel."""
    size = 2**16 if small else microbench.read_bytes(bench.device) // 4
    buffer = microbench.noise(bench.device, size, dtype="fp32")
    ways = microbench.ways_to_read(buffer)
    named = dict(zip(("sum", "copy", "kernel"), ways if bench.device.is_gpu else ways[:2], strict=False))
    return {name: buffer.nbytes / bench.glance(step).value for name, step in named.items()}


def attention(bench: Bench, small: bool) -> list[dict[str, Any]]:
    """Seconds of one layer's attention, by bytes and by tiling; the decoder without it is taken off."""
    heads = Heads("bf16", 2, 32, 16) if small else HEADS
    linears = microbench.matrices(bench.device, heads.dtype, 0)
    found = []
    for batch, context in SMALL_SIZES if small else SIZES:
        steps = AttentionSteps(bench.device, heads, batch, context, None, linears)
        start = time.monotonic()
        without = bench.glance(captured(steps.steps[AttentionSteps.WITHOUT], bench.device)).value
        moved = 2 * batch * context * KV_HEADS * heads.head_dim * 2
        for tiling in tilings(heads.head_dim, heads.group) if bench.device.is_gpu else ():
            launched, step = steps.tiled(tiling)
            seconds = (bench.glance(captured(step, bench.device)).value - without) / steps.layers
            used = launched.tiling or tiling
            row = {"bytes": moved, "tokens": used.tokens, "warps": used.warps, "stages": used.stages}
            found.append({**row, "seconds": seconds, "bytes_per_s": moved / max(seconds, 1e-9)})
        if not bench.device.is_gpu:
            found.append({"bytes": moved, "seconds": time.monotonic() - start})
        del steps
        gc.collect()
    return found


if __name__ == "__main__":
    main()
