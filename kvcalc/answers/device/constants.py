"""The constants of a calibration that a step needs: of products, attention and what lies between."""

from collections.abc import Iterable

from kvcalc.errors import KvcalcError
from kvcalc.results.calibrate import AttentionRow, CalibrateResult, GlueRow, LinearRow


def linear_at(measured: CalibrateResult, dtype: str, rows: int) -> LinearRow:
    """The constants of products on so many rows.

    Raises:
        KvcalcError: the calibration has none.
    """
    row = next((row for row in measured.linear_rows if (row.dtype, row.rows) == (dtype, rows)), None)
    if row is None:
        what = f"products on {rows} rows in {dtype}"
        raise KvcalcError(f"the calibration has no {what}", hint="run measures what it lacks")
    return row


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


def glue_seconds(row: GlueRow, layers: float, moved_bytes: float, logit_bytes: float) -> float:
    """Norms, rotary, gate and sampler of one step.

    Args:
        row: the constants.
        layers: of the decoder.
        moved_bytes: what the pieces of all layers read and write.
        logit_bytes: of the whole batch.
    """
    by_byte = moved_bytes / row.bandwidth_bytes_per_s if row.bandwidth_bytes_per_s else 0.0
    by_logit = logit_bytes / row.sampler_bandwidth_bytes_per_s if row.sampler_bandwidth_bytes_per_s else 0.0
    return row.step_s + layers * row.layer_s + by_byte + by_logit
