"""llama.cpp's own kernels (ggml): what a multiplication, experts, attention and the launches between them take.

Pure formulas of quantities and constants, for numbers and NumPy arrays alike; `ggml_seconds` takes a machine's
constants. One row of input is multiplied by kernels that read weights and do little else; more rows by kernels that
work in tiles, whose arithmetic does not hide behind the reading.

Unit: s
Source: ggml-org/llama.cpp, ggml/src/ggml-cuda, for which kernel runs; the rates were fitted to published llama-bench
results: `gpu_specs/llamacpp/`, by backend and build
"""

from math import log
from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, greatest, least
from kvcalc.counting.work import Operator
from kvcalc.specs.formats import ELEMENT_BITS
from kvcalc.specs.ggml import GgmlKernels, Parts, Quants, Split
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.ggml_tiles import VECTOR_ROWS, Tiles, beyond_one, woken_experts
from kvcalc.timing.operators.smooth import Times
from kvcalc.timing.peaks import arithmetic, host_link

LAUNCHES = 2  # of a multiplication: its input is quantized, then multiplied
LAYER_LAUNCHES = 9  # of a layer: norms, rotary, cache writes, activation, additions
ATTENTION_LAUNCHES = 2
LAYERS_OF_32 = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q8_1", "iq4_nl", "int8", "fp8")
MICROSCALED = ("mxfp4", "nvfp4")
# A scale for each 16 weights, half of what one int8 instruction of the tensor cores multiplies (ggml-cuda/mmq.cuh).
SIXTEENS = ("q2_k", "q3_k", "q6_k", "iq2_xs", "iq2_s")
SCORE_BYTES = 4
COPIED_ROWS = 32  # rows from which weights on the host are copied to the device (ggml-cuda.cu, offload_op)


class Rates(NamedTuple):
    """Bytes/s and FLOP/s that a kernel reaches on one row, and on many."""

    read_one: Quantity
    read_many: Quantity
    compute: Quantity


def quants(name: str, bits: float) -> Quants:
    """The class of a format of weights.

    >>> quants("q4_k", 4.5), quants("q8_0", 8.5), quants("fp16", 16)
    ('k', 'legacy', 'plain')
    """
    if name in LAYERS_OF_32:
        return "legacy"
    if name.split("-")[0] in MICROSCALED:
        return "mx"
    return "plain" if bits >= ELEMENT_BITS["bf16"] else "k"


def multiplied(bytes_read: Quantity, flops: Quantity, rows: Quantity, rates: Rates, tile: float) -> Quantity:
    """Seconds of a multiplication of `rows` rows.

        bytes / rate + FLOPs / rate · (rows + tile) / rows         one row: bytes alone

    Args:
        bytes_read: of weights.
        flops: of all rows.
        rows: of input that share the weights.
        rates: what the kernels reach.
        tile: rows that a tile wastes.

    >>> rates = Rates(read_one=800e9, read_many=900e9, compute=100e12)
    >>> multiplied(8e9, 16e9, 1, rates, tile=6), round(multiplied(9e9, 8e12, 512, rates, tile=6), 4)
    (0.01, 0.0909)
    """
    wide = rows > VECTOR_ROWS
    read = bytes_read * ((1 - wide) / rates.read_one + wide / rates.read_many)
    return read + beyond_one(rows) * flops / rates.compute * (rows + tile) / greatest(rows, 1)


def launched(kernels: float, rows: Quantity, one_s: float, many_s: float) -> Quantity:
    """Seconds of the launches of so many kernels."""
    return kernels * (one_s + beyond_one(rows) * (many_s - one_s))


def beyond_first(flops: Quantity, tokens: Quantity) -> Quantity:
    """FLOPs of a recurrent layer after each sequence's first token, whose work hides behind reading the state.

    A sequence's tokens walk through its state one after the other, without matrix units: a warp holds a column of the
    state and adds up across its lanes twice a token. So it takes vector arithmetic's time, and more heads take longer.

    Unit: FLOPs
    Source: ggml-org/llama.cpp, gated_delta_net.cu, whose kernel loops over the tokens of a ubatch; pull request 22587
    timed it by tokens

    >>> beyond_first(3e6, 1), beyond_first(512 * 3e6, 512)
    (0.0, 1533000000.0)
    """
    return flops * (1 - 1 / greatest(tokens, 1))


def busy_share(split: Split, parameters: float) -> float:
    """Of the time of a layer split's stages, what is work while ubatches follow each other.

    It falls with the logarithm of a stage's parameters between the sizes that were measured; beyond them it stays.

    Unit: 1
    Source: `gpu_specs/llamacpp/parts.toml`. Why stages of large models do not overlap is not known.

    >>> split = Split(hop_s=0, parameters=(2e9, 18e9), busy=(0.8, 0.4), evidence="")
    >>> busy_share(split, 1e9), round(busy_share(split, 6e9), 2), busy_share(split, 70e9)
    (0.8, 0.6, 0.4)
    """
    (fewest, most), (small, large) = split.parameters, split.busy
    along = log(parameters / fewest) / log(most / fewest)
    return small + (large - small) * min(1.0, max(0.0, along))


def pipelined(ubatches: float, stages: int, busy: float) -> float:
    """Ubatches' worth of time until as many have passed all stages, one behind the other.

        1 + (m - 1) / (busy · n)

    Batches of `--batch-size` tokens do not wait for each other: llama-server waits for what has an output.

    Source: ggml-org/llama.cpp, llama-context.cpp (decode) and server.cpp (update_slots)

    >>> pipelined(16, 1, 0.8), pipelined(16, 4, 0.75), pipelined(16, 2, 0.4)
    (16.0, 6.0, 16.0)
    """
    if stages == 1:
        return float(ubatches)
    return 1 + (ubatches - 1) * min(1.0, 1 / (busy * stages))


def ggml_seconds(operator: Operator, machine: Machine, kernels: GgmlKernels) -> Times:
    """(latency, work) of one call, on the device or on the host; a hop to the next device of a layer split."""
    if operator.kind == "send":
        return _parts(machine).split.hop_s, 0.0
    if operator.place == "host":
        return _host(operator, machine, kernels)
    return _device(operator, machine, kernels)


def _parts(machine: Machine) -> Parts:
    assert machine.parts is not None
    return machine.parts


def _host(operator: Operator, machine: Machine, kernels: GgmlKernels) -> Times:
    """The CPU reads what few rows need; for many, the weights are copied to the device, which multiplies them.

    A copy is read from the host's memory too: the slower of that and the link sets its pace.
    """
    latency, work = _device(operator, machine, kernels)
    link = host_link(machine.gpu).bandwidth_bytes_per_s
    copied = least(greatest(_sharing(operator) - COPIED_ROWS + 1, 0), 1)
    host = _parts(machine).host
    share = host.share if operator.experts is None else host.experts_share
    read = operator.bytes / (share * machine.host_bandwidth)
    copies = operator.weight_bytes / min(host.copy_share * link, host.share * machine.host_bandwidth) + work
    return host.switch_s + copied * latency, (1 - copied) * read + copied * copies


def _device(operator: Operator, machine: Machine, kernels: GgmlKernels) -> Times:
    kind = operator.kind
    latency = launched(launches(operator), _sharing(operator), kernels.launch_s, kernels.many_launch_s)
    if kind == "gemm":
        found = multiplied(
            operator.weight_bytes, operator.flops, operator.rows, rates(operator, machine, kernels), kernels.fill_rows
        )
        return latency, found
    if kind == "experts":
        return latency + kernels.experts_s, _experts(operator, machine, kernels)
    if kind == "prefill_attention":
        return latency, _prompt(operator, machine, kernels)
    if kind in ("attention", "latent_attention", "state"):
        share = kernels.cache_share if machine.flash_attention else kernels.cache_share_no_flash
        fixed = kernels.state_s + _walked(operator, machine, kernels) if kind == "state" else 0.0
        _, peak = arithmetic(machine.gpu, computed_in(operator, machine))
        read = operator.bytes / (share * machine.bandwidth)
        return latency + fixed, greatest(read, operator.flops / peak)  # absorbed latents: many FLOPs a byte
    return latency, operator.bytes / (kernels.elementwise_share * machine.bandwidth)


def _walked(operator: Operator, machine: Machine, kernels: GgmlKernels) -> Quantity:
    further = beyond_first(operator.flops, operator.context)
    return further / (kernels.state_share * arithmetic(machine.gpu, "fp32")[1])


def computed_in(operator: Operator, machine: Machine) -> str:
    """The element type that ggml's kernels multiply in, which is not the weights': half for 16 bits and attention.

    Quantized weights meet inputs that are quantized too, in whole numbers where the device is quick at them; 32 bits
    go to the library that may round them to TF32.

    Source: ggml-org/llama.cpp, mmq.cuh (q8_1 inputs) and common.cuh (CUBLAS_TF32_TENSOR_OP_MATH)
    """
    if operator.kind not in ("gemm", "experts") or machine.ggml is None:
        return "fp16"
    if quants(operator.format, operator.bits) != "plain":
        return machine.ggml.peak
    if operator.bits <= ELEMENT_BITS["bf16"]:
        return "fp16"
    return "tf32" if machine.gpu.peak("tf32") else "fp32"


def rates(operator: Operator, machine: Machine, kernels: GgmlKernels) -> Rates:
    """What kernels reach on this operator's format; 32 bits are multiplied as fast as 16, as far as their peak allows.

    F32 prompts of Llama-3.2-1B on an RTX 4090 reach 0.74 of TF32's peak, as many FLOP/s as F16's constants say.
    """
    of = quants(operator.format, operator.bits)
    _, peak = arithmetic(machine.gpu, "fp16" if of == "plain" else kernels.peak)
    _, most = arithmetic(machine.gpu, computed_in(operator, machine))
    flops_share = kernels.flops_share[of] * (kernels.sixteens_share if operator.format in SIXTEENS else 1)
    return Rates(
        kernels.bandwidth_share[of] * machine.bandwidth,
        kernels.prompt_bandwidth_share[of] * machine.bandwidth,
        min(flops_share * peak, most),
    )


def _sharing(operator: Operator) -> Quantity:
    """Rows that decide between the kernels of one row and those of many: of experts, the tokens of the step."""
    return operator.rows if operator.experts is None else operator.experts.tokens


def launches(operator: Operator) -> float:
    """Kernels that one call of an operator launches.

    Unit: kernels
    """
    if operator.kind in ("gemm", "experts"):
        return LAUNCHES * operator.tensors
    if operator.kind == "elementwise":
        return LAYER_LAUNCHES
    return ATTENTION_LAUNCHES if operator.kind != "embedding" else 0


def _experts(operator: Operator, machine: Machine, kernels: GgmlKernels) -> Quantity:
    """The rows of one woken expert share its tiles."""
    load = operator.experts
    assert load is not None
    full = rates(operator, machine, kernels)
    return woken_experts(
        (operator.weight_bytes / full.read_one, operator.weight_bytes / full.read_many),
        operator.flops / (full.compute * kernels.experts_flops_share),
        load.tokens,
        operator.rows / load.woken,
        Tiles(kernels.widest_tile, kernels.tile_rows, kernels.idle_share),
    )


def attention_flops(operator: Operator, machine: Machine) -> Quantity:
    """FLOPs of a ubatch's attention: with every cell in use, but where kernels skip what the mask hides.

    Unit: FLOPs
    Source: ggml-org/llama.cpp, ggml-cuda/fattn-common.cuh (launch_fattn: KV_max from 1,024 rows on);
    `gpu_specs/llamacpp/masks.toml` for the other backends
    """
    skips = machine.skips
    hidden = operator.later_flops + operator.behind_flops
    if skips is None:
        return operator.flops + hidden
    kept = 0 if skips.behind else operator.behind_flops
    return operator.flops + kept + (operator.rows < skips.tokens) * (hidden - kept)


def _prompt(operator: Operator, machine: Machine, kernels: GgmlKernels) -> Quantity:
    _, peak = arithmetic(machine.gpu, computed_in(operator, machine))
    flops = attention_flops(operator, machine)
    read = operator.cache_bytes / (kernels.cache_share * machine.bandwidth)
    if machine.flash_attention:
        return read + flops / (kernels.attention_flops_share * peak)
    scores = flops / (4 * max(operator.head_dim, 1))  # one for each head, row and cell
    passes = kernels.scores_passes * SCORE_BYTES * scores / machine.bandwidth
    return read + passes + flops / (kernels.attention_flops_share_no_flash * peak)
