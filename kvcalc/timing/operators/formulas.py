"""How long one kernel takes: a latency, and its work at shares of the data sheet's rates.

Pure formulas of physical quantities and constants, for numbers and NumPy arrays alike; `price.py` finds the constants
of an operator. Each returns (latency, work): the two add up, and prefills of many tokens hide the first.

A smooth maximum, (x⁴ + y⁴)^¼, joins memory and compute time. Measured multiplications bend like this between the two
regimes: the sum errs 12 %, a hard maximum 8.5 %, this 8.1 % over 1,220 of them.
"""

from kvcalc.counting.arrays import Quantity

Times = tuple[Quantity, Quantity]
ROOT_BYTES = 1_000_000  # the message whose climb to full bandwidth takes `sqrt_s`


def smooth_maximum(*times: Quantity) -> Quantity:
    """(Σ t⁴)^¼: the largest where one dominates, at most 19 % (of two) above it where they are equal.

    >>> smooth_maximum(3.0, 0.0), round(smooth_maximum(1.0, 1.0), 3)
    (3.0, 1.189)
    """
    total: Quantity = sum(time**4 for time in times)
    return total**0.25


def matmul_time(
    bytes_moved: Quantity,
    flops: Quantity,
    bandwidth: float,
    peak: float,
    latency: float,
    bandwidth_share: float,
    flops_share: float,
) -> Times:
    """A multiplication, or all experts of a layer: bytes at a share of the bandwidth against FLOPs at one of the peak.

    >>> latency, work = matmul_time(3.35e6, 0, 3.35e12, 989e12, 4e-6, 0.9, 0.8)
    >>> round((latency + work) * 1e6, 2)
    5.11
    """
    return latency, smooth_maximum(bytes_moved / (bandwidth_share * bandwidth), flops / (flops_share * peak))


def attention_time(bytes_read: Quantity, bandwidth: float, latency: float, bandwidth_share: float) -> Times:
    """Decode attention reads the cache; its FLOPs hide behind that."""
    return latency, bytes_read / (bandwidth_share * bandwidth)


def latent_attention_time(
    bytes_read: Quantity,
    flops: Quantity,
    context: Quantity,
    bandwidth: float,
    peak: float,
    latency: float,
    bandwidth_share: float,
    flops_share: float,
    token_s: float,
) -> Times:
    """Absorbed latent attention: bandwidth, FLOPs of all heads on one latent, or the walk along one context."""
    return latency, smooth_maximum(
        bytes_read / (bandwidth_share * bandwidth), flops / (flops_share * peak), context * token_s
    )


def prefill_attention_time(
    flops: Quantity,
    bytes_moved: Quantity,
    bandwidth: float,
    peak: float,
    latency: float,
    bandwidth_share: float,
    flops_share: float,
) -> Times:
    """Attention among a prompt's tokens: FLOPs, and queries and outputs, which do not overlap with them."""
    return latency, flops / (flops_share * peak) + bytes_moved / (bandwidth_share * bandwidth)


def ring_time(
    message_bytes: Quantity, gpus: int, link: float, latency: float, link_share: float, sqrt_s: float = 0
) -> Times:
    """An all-reduce: each link carries 2 (n - 1) / n of the message; the root term is the climb to full bandwidth.

    Source: Patarasuk and Yuan 2009 (bandwidth-optimal all-reduce) for the ring; the root term halves the error
    between 0.1 and 10 MB.

    >>> latency, work = ring_time(1e6, 2, 100e9, latency=5e-6, link_share=1.0, sqrt_s=2e-6)
    >>> round((latency + work) * 1e6, 2)
    17.0
    """
    moved = 2 * (gpus - 1) / gpus * message_bytes
    return latency, moved / (link_share * link) + sqrt_s * (message_bytes / ROOT_BYTES) ** 0.5
