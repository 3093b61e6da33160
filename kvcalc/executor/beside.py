"""The constants beside a point: benchmarks of the calibration run again, in turn with the point's own steps.

A CPU is rarely alone: neighbours on the host take bandwidth and clock from it, for seconds or for hours. So latency and
bandwidth are taken where they are used. A GPU is not shared, and is taken as it was calibrated.
"""

from collections.abc import Mapping

from kvcalc.answers.device.constants import attention_at, glue_at, glue_seconds
from kvcalc.executor.device import Device
from kvcalc.executor.loop import Step
from kvcalc.executor.microbench import head_matrices, linear_of, matrices, products
from kvcalc.executor.microbench_layer import (
    CACHES,
    GLUE_CONTEXT,
    SKELETON_ROWS,
    SKELETONS,
    AttentionSteps,
    Heads,
    attention_bytes,
    attention_of,
    glue_columns,
    skeleton_shape,
)
from kvcalc.executor.shape import Shape
from kvcalc.executor.skeleton import skeleton
from kvcalc.executor.timing import Sample
from kvcalc.results.calibrate import CalibrateResult, GlueRow
from kvcalc.specs.base import replace

ENDS = (0, -1)  # the smallest and the largest of the calibration's matrices and caches: latency and bandwidth
SKELETON = 1  # of the decoders that are all glue: the middle one


class Beside:
    """Products, attention and glue of a calibration, to be run again for every batch."""

    def __init__(self, device: Device, heads: Heads, calibration: CalibrateResult, tied: bool) -> None:
        """`tied`: the model's head is its embedding table, a matrix of its own kind."""
        self._device, self._heads, self._calibration = device, heads, calibration
        self._sets = [matrices(device, heads.dtype, size) for size in ENDS]
        if tied and self._sets[-1][0].packed:
            self._sets.append(head_matrices(device, heads.dtype))
        tiling = attention_at(calibration, *heads.shape).tiling
        caches = [CACHES[device.kind][end] for end in ENDS]
        self._attention = [AttentionSteps(device, heads, *cache, tiling, self._sets[0]) for cache in caches]
        self._read = [attention_bytes(device, heads, *cache) for cache in caches]

    def steps(self, batch: int) -> dict[str, Step]:
        """The benchmarks for a batch."""
        found: dict[str, Step] = {
            f"products {index}": products(self._device, batch, linears, self._heads.dtype)
            for index, linears in enumerate(self._sets)
        }
        for index, attention in enumerate(self._attention):
            found |= {f"{name} {index}": step for name, step in attention.steps.items()}
        decoder = skeleton(self._device, self._heads.dtype, self._shape, (_glue_rows(batch), GLUE_CONTEXT))
        bare = decoder.without("attention", "linears")
        return {**found, "glue": lambda: decoder.step(bare)}

    def constants(self, batch: int, samples: Mapping[str, Sample]) -> CalibrateResult:
        """The calibration with what this batch and these heads took in the windows of `steps`."""
        dtype, qk_norm = self._heads.dtype, self._heads.qk_norm
        known = self._calibration
        times = [samples[f"products {index}"].value / len(linears) for index, linears in enumerate(self._sets)]
        linear = linear_of(dtype, batch, self._sets, times, len(ENDS))
        seconds = [
            one.seconds({name: samples[f"{name} {index}"] for name in one.steps})
            for index, one in enumerate(self._attention)
        ]
        tiling = attention_at(known, *self._heads.shape).tiling
        attention = attention_of(self._heads, tiling, self._read, seconds)
        glue = glue_at(known, dtype, cold=False, qk_norm=qk_norm)
        _, layers, moved, logits = glue_columns(dtype, self._shape, _glue_rows(batch))
        slower = samples["glue"].value / glue_seconds(glue, layers, moved, logits)
        return replace(
            known,
            linear_rows=(linear, *known.linear_rows),
            attention_rows=(attention, *known.attention_rows),
            glue_rows=tuple(_slowed(row, slower) for row in known.glue_rows),
        )

    @property
    def _shape(self) -> Shape:
        return skeleton_shape(*SKELETONS[SKELETON], self._heads.qk_norm)


def beside_bytes(device: Device) -> int:
    """Memory that they hold, at most: three sets of matrices and two of caches, the first of which is small."""
    return 4 * device.rotated_bytes


def _glue_rows(batch: int) -> int:
    """The largest number of rows up to a batch that the decoders were calibrated with."""
    return max(rows for rows in SKELETON_ROWS if rows <= batch)


def _slowed(row: GlueRow, slower: float) -> GlueRow:
    moved, sampled = row.bandwidth_bytes_per_s, row.sampler_bandwidth_bytes_per_s
    return replace(
        row,
        step_s=row.step_s * slower,
        layer_s=row.layer_s * slower,
        bandwidth_bytes_per_s=moved / slower if moved else None,
        sampler_bandwidth_bytes_per_s=sampled / slower if sampled else None,
    )
