"""What an expert's share of a matrix takes once its kernels have it the way they want it.

Source: vllm/model_executor/layers/fused_moe/oracle/mxfp4.py; the multiples by GPU and version stand in
`engines/vllm/memory.toml`
"""

from kvcalc.counting.rounding import ceil_div, round_up
from kvcalc.counting.weights import matrix_bytes
from kvcalc.specs.base import Frozen, replace
from kvcalc.specs.formats import WeightFormat


class ExpertKernels(Frozen):
    """How the kernels of one weight format keep experts. Sizes are multiples; 1: as it is."""

    format: str
    width: int = 1  # an expert's width on one rank
    hidden: int = 1
    value_inputs: int = 1  # elements: the values are rearranged, their inputs padded
    value_outputs: int = 1
    scale_outputs: int = 0  # the scales are rearranged, their outputs padded; 0: they stay as they are
    keeps_scales: bool = False  # the scales as they were loaded stay beside the rearranged ones
    bias_bits: int | None = None  # None: the model's own type


# Marlin's, which run everywhere (vllm/model_executor/layers/fused_moe/oracle/mxfp4.py).
USUAL = (ExpertKernels(format="mxfp4", width=128, hidden=256),)


def padded_shape(shape: tuple[int, ...], split: str, gates: int, kernels: ExpertKernels) -> tuple[int, ...]:
    """A rank's share with width and hidden size in multiples: gate and up have the width as outputs, down as inputs.

    Args:
        shape: (outputs, inputs) of the share, or a bias's (outputs,).
        split: how tensor parallelism divides it: `columns` is gate or up, others down.
        gates: matrices in one: 2 where gate and up are fused.

    Unit: elements
    """
    *before, outputs, inputs = shape if len(shape) > 1 else (*shape, 0)
    if split == "columns":
        outputs, inputs = gates * round_up(outputs // gates, kernels.width), round_up(inputs, kernels.hidden)
    else:
        outputs, inputs = round_up(outputs, kernels.hidden), round_up(inputs, kernels.width)
    return (*before, outputs, inputs) if len(shape) > 1 else (outputs,)


def kept_bytes(shape: tuple[int, ...], form: WeightFormat, kernels: ExpertKernels) -> int:
    """Bytes of a padded share of one expert: values and scales may be padded again as they are rearranged.

    Unit: bytes
    """
    if len(shape) < 2:
        return ceil_div(shape[0] * (kernels.bias_bits or int(form.bits)), 8)
    if not kernels.scale_outputs:
        return matrix_bytes(shape, form)
    *before, outputs, inputs = shape
    bare = replace(form, scale="none")

    def scales(rows: int) -> int:
        size = (*before, rows, inputs)
        return matrix_bytes(size, form) - matrix_bytes(size, bare)

    values = (*before, round_up(outputs, kernels.value_outputs), round_up(inputs, kernels.value_inputs))
    kept = scales(outputs) if kernels.keeps_scales else 0
    return matrix_bytes(values, bare) + scales(round_up(outputs, kernels.scale_outputs)) + kept
