"""One matmul of `rows` activations with a D × F weight matrix, and the roofline that it meets."""

from kvcalc.formulas.number import N


def ridge_point(peak_flops: float, bandwidth_bytes_per_s: float) -> float:
    """The intensity at which arithmetic takes as long as memory.

    Args:
        peak_flops: Dense peak of the element type, FLOP/s.
        bandwidth_bytes_per_s: Memory bandwidth, bytes/s.

    Formula: peak_flops / bandwidth_bytes_per_s
    Unit: FLOP/byte
    Source: Williams, Waterman and Patterson 2009 (roofline)

    >>> round(ridge_point(peak_flops=989e12, bandwidth_bytes_per_s=3.35e12))
    295
    """
    return peak_flops / bandwidth_bytes_per_s


def matmul_flops(rows: N, d: N, f: N) -> N:
    """FLOPs of (rows × D) · (D × F): one multiply and one add per weight and row.

    Args:
        rows: Rows of activations (tokens).
        d: Inputs of the matrix.
        f: Outputs of the matrix.

    Formula: 2 * rows * d * f
    Unit: FLOP
    Source: Kaplan et al. 2020, section 2.1

    >>> matmul_flops(rows=1, d=4096, f=4096)
    33554432
    """
    return 2 * rows * d * f


def matmul_bytes(rows: N, d: N, f: N, bytes_per_weight: N, bytes_per_activation: N) -> N:
    """Bytes of (rows × D) · (D × F): the matrix once, the activations in and out.

    Args:
        rows: Rows of activations (tokens).
        d: Inputs of the matrix.
        f: Outputs of the matrix.
        bytes_per_weight: Bytes of one weight.
        bytes_per_activation: Bytes of one input or output element.

    Formula: d * f * bytes_per_weight + rows * (d + f) * bytes_per_activation
    Unit: bytes
    Source: Austin et al. 2025 (How to Scale Your Model), chapter 1

    >>> matmul_bytes(rows=1, d=4096, f=4096, bytes_per_weight=2, bytes_per_activation=2)
    33570816
    """
    return d * f * bytes_per_weight + rows * (d + f) * bytes_per_activation


def matmul_threshold_rows(
    ridge_flop_per_byte: float, d: float, f: float, bytes_per_weight: float = 2, bytes_per_activation: float = 2
) -> float | None:
    """B*: the rows from which a matmul is compute-bound; None where its activations keep it memory-bound for ever.

    It solves `matmul_flops / matmul_bytes = ridge`. In bf16 it is R·D·F / (D·F − R·(D + F)), near R for wide matrices;
    there is none where D·F ≤ R·(D + F).

    Args:
        ridge_flop_per_byte: Ridge point of the element type that multiplies.
        d: Inputs of the matrix.
        f: Outputs of the matrix.
        bytes_per_weight: Bytes of one weight.
        bytes_per_activation: Bytes of one input or output element.

    Formula: ridge_flop_per_byte * d * f * bytes_per_weight
        / (2 * d * f - ridge_flop_per_byte * (d + f) * bytes_per_activation)
        if 2 * d * f > ridge_flop_per_byte * (d + f) * bytes_per_activation else None
    Unit: rows
    Source: ML Systems lesson 2 (the roofline); Austin et al. 2025 (How to Scale Your Model), chapter 1

    >>> round(matmul_threshold_rows(989 / 3.35, d=4096, f=4096), 1)
    344.9
    >>> matmul_threshold_rows(989 / 3.35, d=512, f=512) is None
    True
    """
    surplus = 2 * d * f - ridge_flop_per_byte * (d + f) * bytes_per_activation
    if surplus <= 0:
        return None
    return ridge_flop_per_byte * d * f * bytes_per_weight / surplus
