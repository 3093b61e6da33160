"""Small benchmarks of the device itself: bandwidth, matrix rate, products on few rows, gaps between kernels.

Each rotates over more buffers than a cache holds, with noise in them.
"""

from functools import cache
from typing import TYPE_CHECKING

from kvcalc.executor.device import Device, torch_dtype
from kvcalc.executor.fit import affine
from kvcalc.executor.linear import Linear
from kvcalc.executor.loop import Step, captured
from kvcalc.executor.noise import Noise
from kvcalc.executor.timing import Bench, Sample
from kvcalc.reports.calibrate import LinearRow
from kvcalc.units import MIB

if TYPE_CHECKING:
    import torch

ROTATED = 4  # times the last-level cache: what came before is gone when it comes again
SQUARE = {"cpu": 2048, "cuda": 8192}  # of the products that show the peak
READ_BYTES = {"cpu": 256 * MIB, "cuda": 2048 * MIB}
# Matrices (outputs, inputs), a factor of about eight between them, none of a published model's shape.
MATRICES = {"cpu": ((1216, 704), (2688, 2304), (7424, 6400)), "cuda": ((5376, 2304), (10496, 4864), (22016, 9984))}
ROWS = (1, 2, 4, 8, 16, 32, 64)
TINY_KERNELS = 200

drawn = cache(Noise)  # once


def noise(device: Device, *sizes: int, dtype: str) -> "torch.Tensor":
    """A tensor of noise on the device."""
    import torch

    return drawn().fill(torch.empty(sizes, dtype=torch_dtype(dtype), device=device.torch))


def copies(device: Device, nbytes: float) -> int:
    """How many buffers of a size are rotated, so that none is still in a cache when it comes again."""
    return max(2, int(-(-ROTATED * device.cache_bytes // nbytes)))


class Reading:
    """The device's read bandwidth, again and again over the same buffer: how quiet it is."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.buffer = noise(bench.device, READ_BYTES[bench.device.kind] // 4, dtype="fp32")

    def sample(self) -> Sample:
        """Seconds of one reading, measured as every other benchmark is."""
        return self.bench.measure(self.buffer.sum)

    def bandwidth(self) -> float:
        """Bytes per second at this moment, without waiting for a better one."""
        return self.buffer.nbytes / self.bench.glance(self.buffer.sum).value


def copy_bandwidth(bench: Bench) -> tuple[float, Sample]:
    """Bytes read and written per second."""
    import torch

    source = noise(bench.device, READ_BYTES[bench.device.kind] // 4, dtype="fp32")
    target = torch.empty_like(source)
    sample = bench.measure(lambda: target.copy_(source))
    return 2 * source.nbytes / sample.value, sample


def matmul_peak(bench: Bench, dtype: str) -> tuple[float, Sample]:
    """FLOP/s of a large square product."""
    size = SQUARE[bench.device.kind]
    a, b = noise(bench.device, size, size, dtype=dtype), noise(bench.device, size, size, dtype=dtype)
    sample = bench.measure(lambda: a @ b)
    return 2 * size**3 / sample.value, sample


def dispatch(bench: Bench) -> tuple[float, Sample]:
    """Seconds from one tiny kernel to the next, in a graph where there is one."""
    import torch

    x = torch.zeros(64, device=bench.device.torch)

    def step() -> None:
        for _ in range(TINY_KERNELS):
            x.add_(1)

    sample = bench.measure(captured(step, bench.device)).per(TINY_KERNELS)
    return sample.value, sample


def matrix_sets(device: Device, dtype: str) -> list[list[Linear]]:
    """Equal matrices of each size, enough to rotate; last the largest size in its usual order, where others are not."""
    found = []
    for outputs, inputs in MATRICES[device.kind]:
        nbytes = outputs * inputs * torch_dtype(dtype).itemsize
        linears = [Linear(noise(device, outputs, inputs, dtype=dtype)) for _ in range(copies(device, nbytes))]
        for linear in linears:
            linear.pack()
        found.append(linears)
    if linears[0].packed:
        found.append([Linear(linear.dense()) for linear in linears])
    return found


def linear_row(bench: Bench, dtype: str, rows: int, sets: list[list[Linear]]) -> tuple[LinearRow, Sample]:
    """Latency and bandwidth of products on some rows, over `matrix_sets`."""
    samples = [_products(bench, rows, linears, dtype) for linears in sets]
    sizes = len(MATRICES[bench.device.kind])
    times = [sample.value for sample in samples[:sizes]]
    latency, bandwidth, error = affine([linears[0].bytes for linears in sets[:sizes]], times)
    row = LinearRow(
        dtype=dtype,
        rows=rows,
        latency_s=latency,
        bandwidth_bytes_per_s=bandwidth,
        plain_bandwidth_bytes_per_s=sets[-1][0].bytes / samples[-1].value if len(sets) > sizes else None,
        error=error,
    )
    return row, max(samples, key=lambda sample: sample.spread)


def _products(bench: Bench, rows: int, linears: list[Linear], dtype: str) -> Sample:
    x = noise(bench.device, rows, linears[0].inputs, dtype=dtype)

    def step() -> None:
        for linear in linears:
            linear(x)

    return bench.measure(captured(step, bench.device)).per(len(linears))


class Stream:
    """Products over ever new matrices, to stand between calls of something else.

    In a model weights pass through the caches between any two other calls, which therefore find neither their data nor
    their own code there: on a CPU that doubles what small calls take. Called back to back they would look too fast.
    """

    def __init__(self, bench: Bench, dtype: str, rows: int) -> None:
        device, (outputs, inputs) = bench.device, MATRICES[bench.device.kind][0]
        count = copies(device, outputs * inputs * torch_dtype(dtype).itemsize)
        self.bench = bench
        self._linears = [Linear(noise(device, outputs, inputs, dtype=dtype)) for _ in range(count)]
        for linear in self._linears:
            linear.pack()
        self._x = noise(device, rows, inputs, dtype=dtype)
        self._next = 0

    def __call__(self) -> None:
        self._next = (self._next + 1) % len(self._linears)
        self._linears[self._next](self._x)

    def taken_off(self, step: Step, calls: int) -> tuple[float, Sample]:
        """Seconds of a step that calls this so many times, without them; and the windows of all of it."""

        def alone() -> None:
            for _ in range(calls):
                self()

        device = self.bench.device
        found = self.bench.together({"alone": captured(alone, device), "both": captured(step, device)})
        return found["both"].less(found["alone"]).positive, found["both"]
