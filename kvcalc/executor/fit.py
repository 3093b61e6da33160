"""Constants from measurements: few linear terms, none below zero, relative errors made small."""

from collections.abc import Sequence


def fit(columns: Sequence[Sequence[float]], times: Sequence[float]) -> tuple[list[float], float]:
    """Coefficients c ≥ 0 that make Σ (Σ c·x / t - 1)² least, and the mean of |fitted / measured - 1|.

    Args:
        columns: one sequence of x a coefficient, as long as `times`.
        times: what was measured.

    A term that would be negative is left out, the most negative first.

    >>> coefficients, error = fit([[1, 1, 1], [10, 20, 30]], [12, 22, 32])
    >>> [round(c, 6) for c in coefficients], round(error, 6)
    ([2.0, 1.0], 0.0)
    """
    import numpy

    measured = numpy.asarray(times, dtype=float)
    relative = numpy.asarray(columns, dtype=float).T / measured[:, None]
    kept = list(range(relative.shape[1]))
    while True:
        found = numpy.linalg.lstsq(relative[:, kept], numpy.ones(len(measured)), rcond=None)[0]
        if (found >= 0).all() or len(kept) == 1:
            break
        kept.pop(int(found.argmin()))
    coefficients = numpy.zeros(relative.shape[1])
    coefficients[kept] = numpy.maximum(found, 0)
    error = float(numpy.abs(relative @ coefficients - 1).mean())
    return [float(value) for value in coefficients], error


def affine(sizes: Sequence[float], times: Sequence[float]) -> tuple[float, float, float]:
    """Latency, bandwidth and mean relative error of time = latency + size / bandwidth.

    Where noise would have more bytes take less time, the latency is left out: bytes always cost something.

    >>> latency, bandwidth, error = affine([10, 20, 30], [12, 22, 32])
    >>> round(latency, 6), round(bandwidth, 6)
    (2.0, 1.0)
    >>> affine([10, 20], [3, 2])[0]
    0.0
    """
    (latency, per_byte), error = fit([[1.0] * len(sizes), sizes], times)
    if per_byte <= 0:
        latency, ((per_byte,), error) = 0.0, fit([sizes], times)
    return latency, 1 / per_byte, error
