"""How fast the device is beside a point: a small benchmark of each term, against what it took when calibrated.

A CPU is rarely alone: neighbours on the host take bandwidth and clock from it, for seconds or for hours. So the
constants are calibrated again where they are used, by one factor a term. A GPU is not shared, and is taken as it was.
"""

from collections.abc import Mapping
from itertools import product

from kvcalc.answers.constants import attention_at, glue_at, linear_at
from kvcalc.answers.predict import Drift
from kvcalc.executor.device import Device
from kvcalc.executor.loop import Step
from kvcalc.executor.microbench import matrices, products, read_bytes
from kvcalc.executor.microbench_layer import (
    CACHES,
    GLUE_CONTEXT,
    SKELETON_ROWS,
    SKELETONS,
    AttentionSteps,
    Heads,
    skeleton_shape,
)
from kvcalc.executor.skeleton import skeleton
from kvcalc.executor.timing import Sample
from kvcalc.reports.calibrate import CalibrateResult

SIZE = 1  # of the matrices, and of the decoders that are all glue: the middle one
CACHE = 2  # large enough to stand out from the products between


class Canaries:
    """Of every term one benchmark of the calibration, to be run in turn with a step."""

    def __init__(self, device: Device, heads: Heads, calibration: CalibrateResult) -> None:
        batch, context = CACHES[device.kind][CACHE]
        row = attention_at(calibration, *heads.shape)
        self._device, self._heads, self._calibration = device, heads, calibration
        self._linears = matrices(device, heads.dtype, SIZE)
        self._attention = AttentionSteps(device, heads, batch, context, row.stages, self._linears)
        self._attention_s = row.times_s[CACHE]

    def steps(self, batch: int) -> dict[str, Step]:
        """The benchmarks for a batch."""
        products_step = products(self._device, batch, self._linears, self._heads.dtype)
        shape = skeleton_shape(*SKELETONS[SIZE], self._heads.qk_norm)
        decoder = skeleton(self._device, self._heads.dtype, shape, _glue_rows(batch), GLUE_CONTEXT)
        bare = decoder.without("attention", "linears")
        return {**self._attention.steps, "products": products_step, "glue": lambda: decoder.step(bare)}

    def drift(self, batch: int, samples: Mapping[str, Sample]) -> Drift:
        """What the windows of `steps` took, over what they took when the device was calibrated."""
        dtype, qk_norm = self._heads.dtype, self._heads.qk_norm
        linear = linear_at(self._calibration, dtype, batch)
        glue = glue_at(self._calibration, dtype, cold=False, qk_norm=qk_norm)
        case = list(product(range(len(SKELETONS)), SKELETON_ROWS)).index((SIZE, _glue_rows(batch)))
        return Drift(
            weights=samples["products"].value / len(self._linears) / linear.times_s[SIZE],
            kv=self._attention.seconds(samples) / self._attention_s,
            overhead=samples["glue"].value / glue.times_s[case],
        )


def measuring_bytes(device: Device) -> int:
    """Memory that benchmarks hold beside a model: the buffer that is read, and on a CPU matrices and caches."""
    canaries = 0 if device.is_gpu else 2 * device.rotated_bytes
    return read_bytes(device) + canaries


def _glue_rows(batch: int) -> int:
    """The largest number of rows up to a batch that the decoders were calibrated with."""
    return max(rows for rows in SKELETON_ROWS if rows <= batch)
