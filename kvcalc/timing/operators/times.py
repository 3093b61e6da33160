"""The time of one operator on one machine, by its kind.

Unit: s
Source: each kind's own file
"""

from kvcalc.counting.work import Operator
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.attention import decode_seconds, latent_seconds, prompt_seconds
from kvcalc.timing.operators.collective import collective_seconds, host_seconds
from kvcalc.timing.operators.experts import experts_seconds
from kvcalc.timing.operators.ggml import ggml_seconds
from kvcalc.timing.operators.matmul import gemm_seconds
from kvcalc.timing.operators.smooth import Times
from kvcalc.timing.roofline import LINKED


def operator_time(operator: Operator, machine: Machine) -> Times:
    """(latency, work) in seconds of one call."""
    kind = operator.kind
    if machine.ggml is not None and (kind == "send" or kind not in LINKED):
        return ggml_seconds(operator, machine, machine.ggml)
    if kind == "gemm":
        return gemm_seconds(operator, machine)
    if kind in ("attention", "state"):
        return decode_seconds(operator, machine)
    if kind == "indexer":
        latency, work = decode_seconds(operator, machine)
        return latency + machine.kernels.index_s, work
    if kind == "latent_attention":
        return latent_seconds(operator, machine)
    if kind == "prefill_attention":
        return prompt_seconds(operator, machine)
    if kind == "experts":
        return experts_seconds(operator, machine)
    if kind in ("elementwise", "embedding"):
        share = machine.kernels.elementwise_share or 1
        return 0.0, machine.profile.elementwise_factor * operator.bytes / (share * machine.bandwidth)
    if kind == "host":
        return host_seconds(operator, machine)
    return collective_seconds(operator, machine)
