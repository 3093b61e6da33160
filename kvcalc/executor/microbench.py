"""Small benchmarks of the device itself: bandwidth, matrix rate, products on few rows, gaps between kernels.

Each rotates over more buffers than a cache holds, with noise in them.
"""

import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from kvcalc.executor.device import Device, torch_dtype
from kvcalc.executor.fit import affine
from kvcalc.executor.linear import Linear
from kvcalc.executor.loop import Step, captured
from kvcalc.executor.noise import Noise
from kvcalc.executor.timing import Bench, Sample
from kvcalc.results.calibrate import LinearRow
from kvcalc.units import MIB

if TYPE_CHECKING:
    import torch

SQUARE = {"cpu": 2048, "cuda": 8192}  # of the products that show the peak, where that does not take long
LEAST_SQUARE, PRODUCT_S = 256, 0.5
READ_BYTES = {"cpu": 256 * MIB, "cuda": 2048 * MIB}  # at least
# Matrices (outputs, inputs), a factor of about eight between them, none of a published model's shape.
MATRICES = {"cpu": ((1216, 704), (2688, 2304), (7424, 6400)), "cuda": ((5376, 2304), (10496, 4864), (22016, 9984))}
HEAD = (44544, 832)  # a matrix that stays in its usual order: many rows, since it is an embedding table too
ROWS = (1, 2, 4, 8, 16, 32, 64)
TINY_KERNELS = 200
WARM_S = 0.5
READ_BLOCK, READ_BLOCKS = 2048, 16  # elements of a load, and loads of a program
BUSY_CALLS = 1000  # readings, about half a second of a GPU's work

drawn = cache(Noise)  # once


def noise(device: Device, *sizes: int, dtype: str) -> "torch.Tensor":
    """A tensor of noise on the device."""
    import torch

    return drawn().fill(torch.empty(sizes, dtype=torch_dtype(dtype), device=device.torch))


def copies(device: Device, nbytes: float) -> int:
    """How many buffers of a size are rotated, so that none is still in a cache when it comes again."""
    return max(2, int(-(-device.rotated_bytes // nbytes)))


def read_bytes(device: Device) -> int:
    """Of the buffer that shows the bandwidth."""
    return max(READ_BYTES[device.kind], device.rotated_bytes)


class Reading:
    """The device's read bandwidth, again and again over the same buffer: how quiet it is.

    On a GPU the quickest of three ways: PyTorch's sum stays below what other kernels reach on some.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.buffer = noise(bench.device, read_bytes(bench.device) // 4, dtype="fp32")
        self.step: Step = ways_to_read(self.buffer)[0]
        if bench.device.is_gpu:
            self.warm()
            self.step = min(ways_to_read(self.buffer), key=lambda step: bench.glance(step).value)

    def sample(self) -> Sample:
        """Seconds of one reading, measured as every other benchmark is."""
        return self.bench.measure(self.step)

    def state(self) -> dict[str, str]:
        """The device's state while it works: clocks of an idle GPU say nothing."""
        for _ in range(BUSY_CALLS if self.bench.device.is_gpu else 0):
            self.step()  # queued; the state is read meanwhile
        found = self.bench.device.state()
        self.bench.device.synchronize()
        return found

    def warm(self) -> None:
        """Work until a GPU's clocks are those of work; one idle reading says nothing of them."""
        end = time.monotonic() + WARM_S
        while self.bench.device.is_gpu and time.monotonic() < end:
            self.step()
            self.bench.device.synchronize()

    def bandwidth(self) -> float:
        """Bytes per second at this moment, without waiting for a better one."""
        return self.buffer.nbytes / self.bench.glance(self.step).value


def ways_to_read(buffer: "torch.Tensor") -> list[Step]:
    """A sum, one half copied onto the other, and a kernel that only reads; each moves as many bytes as there are."""
    half = buffer.numel() // 2

    def copied() -> None:
        buffer[half : 2 * half].copy_(buffer[:half])

    return [lambda: buffer.sum(), copied, lambda: read_alone(buffer)]


def read_alone(buffer: "torch.Tensor") -> Any:
    """Sums of equal pieces of a buffer, by a kernel of kvcalc's own."""
    import torch

    from kvcalc.executor.kernels_read import read_kernel

    programs = -(-buffer.numel() // (READ_BLOCK * READ_BLOCKS))
    sums = torch.empty(programs, dtype=torch.float32, device=buffer.device)
    read_kernel[(programs,)](buffer, sums, buffer.numel(), BLOCK=READ_BLOCK, BLOCKS=READ_BLOCKS)
    return sums


def copy_bandwidth(bench: Bench) -> tuple[float, Sample]:
    """Bytes read and written per second."""
    import torch

    source = noise(bench.device, read_bytes(bench.device) // 4, dtype="fp32")
    target = torch.empty_like(source)
    sample = bench.measure(lambda: target.copy_(source))
    return 2 * source.nbytes / sample.value, sample


def matmul_peak(bench: Bench, dtype: str) -> tuple[float, Sample]:
    """FLOP/s of a square product, the largest that takes no longer than half a second.

    A CPU without instructions for a type computes it a thousand times as slowly as one that has them.
    """
    size = min(LEAST_SQUARE, SQUARE[bench.device.kind])
    step = _square(bench.device, size, dtype)
    while size < SQUARE[bench.device.kind] and 8 * bench.once(step) < PRODUCT_S:
        size *= 2
        step = _square(bench.device, size, dtype)
    sample = bench.measure(step)
    return 2 * size**3 / sample.value, sample


def _square(device: Device, size: int, dtype: str) -> Step:
    """A product of two square matrices."""
    a, b = noise(device, size, size, dtype=dtype), noise(device, size, size, dtype=dtype)

    def step() -> None:
        a @ b

    return step


def dispatch(bench: Bench) -> tuple[float, Sample]:
    """Seconds from one tiny kernel to the next, in a graph where there is one."""
    import torch

    x = torch.zeros(64, device=bench.device.torch)

    def step() -> None:
        for _ in range(TINY_KERNELS):
            x.add_(1)

    sample = bench.measure(captured(step, bench.device)).per(TINY_KERNELS)
    return sample.value, sample


def matrices(device: Device, dtype: str, size: int) -> list[Linear]:
    """Equal matrices of one of the sizes, enough to rotate."""
    linears = _rotated(device, dtype, *MATRICES[device.kind][size])
    for linear in linears:
        linear.pack()
    return linears


def _rotated(device: Device, dtype: str, outputs: int, inputs: int) -> list[Linear]:
    count = copies(device, outputs * inputs * torch_dtype(dtype).itemsize)
    return [Linear(noise(device, outputs, inputs, dtype=dtype)) for _ in range(count)]


def matrix_sets(device: Device, dtype: str) -> list[list[Linear]]:
    """Matrices of each size; last heads in their usual order, where the others are in none such."""
    found = [matrices(device, dtype, size) for size in range(len(MATRICES[device.kind]))]
    if found[-1][0].packed:
        found.append(head_matrices(device, dtype))
    return found


def head_matrices(device: Device, dtype: str) -> list[Linear]:
    """Heads that are embedding tables too, enough to rotate."""
    return _rotated(device, dtype, *HEAD)


def linear_row(bench: Bench, dtype: str, rows: int, sets: list[list[Linear]]) -> tuple[LinearRow, Sample]:
    """Latency and bandwidth of products on some rows, over `matrix_sets`."""
    device = bench.device
    samples = [
        bench.measure(captured(products(device, rows, linears, dtype), device)).per(len(linears)) for linears in sets
    ]
    row = linear_of(dtype, rows, sets, [sample.value for sample in samples], len(MATRICES[device.kind]))
    return row, max(samples, key=lambda sample: sample.spread)


def linear_of(dtype: str, rows: int, sets: Sequence[list[Linear]], times: Sequence[float], sizes: int) -> LinearRow:
    """Latency and bandwidth from the seconds of one product of each set.

    Args:
        sizes: how many of the sets are sizes of the usual matrices; a further one are heads.
    """
    latency, bandwidth, error = affine([linears[0].bytes for linears in sets[:sizes]], times[:sizes])
    return LinearRow(
        dtype=dtype,
        rows=rows,
        latency_s=latency,
        bandwidth_bytes_per_s=bandwidth,
        plain_bandwidth_bytes_per_s=sets[-1][0].bytes / times[-1] if len(sets) > sizes else None,
        times_s=tuple(times),
        error=error,
    )


def products(device: Device, rows: int, linears: list[Linear], dtype: str) -> Step:
    """A product with each of these matrices."""
    x = noise(device, rows, linears[0].inputs, dtype=dtype)

    def step() -> None:
        for linear in linears:
            linear(x)

    return step


class Stream:
    """Products over ever new matrices, one a call, to stand between calls of something else."""

    def __init__(self, device: Device, dtype: str, rows: int, linears: list[Linear]) -> None:
        self._linears = linears
        self._x = noise(device, rows, linears[0].inputs, dtype=dtype)
        self._next = 0

    def __call__(self) -> None:
        self._next = (self._next + 1) % len(self._linears)
        self._linears[self._next](self._x)

    def alone(self, calls: int) -> Step:
        """So many products and nothing else."""

        def step() -> None:
            for _ in range(calls):
                self()

        return step
