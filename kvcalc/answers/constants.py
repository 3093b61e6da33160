"""The constants of a calibration that a step needs: of products, attention and what lies between."""

from collections.abc import Iterable

from kvcalc.errors import KvcalcError
from kvcalc.reports.calibrate import AttentionRow, CalibrateResult, GlueRow, LinearRow


def linear_at(measured: CalibrateResult, dtype: str, rows: int) -> LinearRow:
    """The constants of products on so many rows; between and beyond measured numbers a product's time goes straight.

    Raises:
        KvcalcError: the calibration has none for this dtype.
    """
    known = sorted((row for row in measured.linear_rows if row.dtype == dtype), key=lambda row: row.rows)
    if not known:
        raise KvcalcError(f"the calibration has no products in {dtype}", hint="run measures what it lacks")
    exact = next((row for row in known if row.rows == rows), None)
    if exact is not None or len(known) == 1:
        return exact or known[0]
    above = next((index for index in range(1, len(known)) if known[index].rows > rows), len(known) - 1)
    low, high = known[above - 1], known[above]
    share = (rows - low.rows) / (high.rows - low.rows)

    def between(first: float, last: float) -> float:
        return first + share * (last - first)

    def rate(first: float, last: float) -> float:
        return 1 / max(between(1 / first, 1 / last), 1 / (1e3 * first))

    plain = low.plain_bandwidth_bytes_per_s, high.plain_bandwidth_bytes_per_s
    return LinearRow(
        dtype=dtype,
        rows=rows,
        latency_s=max(0.0, between(low.latency_s, high.latency_s)),
        bandwidth_bytes_per_s=rate(low.bandwidth_bytes_per_s, high.bandwidth_bytes_per_s),
        plain_bandwidth_bytes_per_s=rate(plain[0], plain[1]) if plain[0] and plain[1] else None,
        times_s=(),
        error=max(low.error, high.error),
    )


def attention_at(measured: CalibrateResult, dtype: str, group: int, head_dim: int, page_size: int) -> AttentionRow:
    """The constants of attention for one shape of heads.

    Args:
        group: query heads of one KV head.
        head_dim: width of a head.
        page_size: tokens of a page.

    Raises:
        KvcalcError: the calibration has none.
    """
    row = find_attention(measured.attention_rows, dtype, group, head_dim, page_size)
    if row is None:
        what = f"attention of {group} heads of {head_dim} in {dtype}, pages of {page_size}"
        raise KvcalcError(f"the calibration has no {what}", hint="run measures what it lacks")
    return row


def find_attention(
    rows: Iterable[AttentionRow], dtype: str, group: int, head_dim: int, page_size: int
) -> AttentionRow | None:
    """The same among some rows; None: not there."""
    wanted = (dtype, group, head_dim, page_size)
    return next((row for row in rows if (row.dtype, row.group, row.head_dim, row.page_size) == wanted), None)


def glue_at(measured: CalibrateResult, dtype: str, *, cold: bool, qk_norm: bool) -> GlueRow:
    """The constants of norms, rotary, gate and sampler.

    Raises:
        KvcalcError: the calibration has none for this dtype.
    """
    wanted = (dtype, cold, qk_norm)
    row = next((row for row in measured.glue_rows if (row.dtype, row.cold, row.qk_norm) == wanted), None)
    if row is None:
        raise KvcalcError(f"the calibration has no norms for {wanted}", hint="run measures what it lacks")
    return row
