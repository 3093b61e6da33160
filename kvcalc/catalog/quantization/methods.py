"""Which method wrote a checkpoint: `quant_method` and `quant_algo` → Scheme."""

from collections.abc import Callable

from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.quantization import groups as groups
from kvcalc.catalog.quantization import schemes as schemes
from kvcalc.catalog.quantization.cover import Scheme
from kvcalc.catalog.quantization.formats import unknown

METHODS: dict[str, Callable[[Keys], Scheme]] = {
    "fp8": schemes.fp8, "deepseek_v4_fp8": schemes.fp8, "fbgemm_fp8": schemes.fbgemm,
    "mxfp4": schemes.mxfp4, "gpt_oss_mxfp4": schemes.mxfp4, "mxfp8": schemes.mxfp8,
    "awq": schemes.awq, "gptq": schemes.gptq, "gptq_marlin": schemes.gptq, "awq_marlin": schemes.awq,
    "bitsandbytes": schemes.bitsandbytes,
    "modelopt": groups.modelopt, "modelopt_fp4": groups.modelopt, "modelopt_mixed": groups.modelopt,
    "modelopt_mxfp8": groups.modelopt, "nvfp4": groups.modelopt,
    "compressed-tensors": groups.compressed_tensors, "quark": groups.quark, "torchao": groups.torchao,
    "auto-round": groups.auto_round, "auto_round": groups.auto_round, "intel/auto-round": groups.auto_round,
    "inc": groups.auto_round,
    "eetq": schemes.eetq, "hqq": schemes.hqq, "bitnet": schemes.bitnet, "mlx": groups.mlx,
}  # fmt: skip


def scheme_of(keys: Keys) -> Scheme:
    """The scheme that a checkpoint's own words describe.

    Raises:
        KvcalcError: an unknown method or algorithm (named), or a value of the wrong type.
    """
    method = keys.raw("quant_method")
    algorithm = keys.raw("quant_algo") or (inner.raw("quant_algo") if (inner := keys.child("quantization")) else None)
    if algorithm is not None:  # ModelOpt, whatever the method is called: DeepSeek-V4's NVFP4 says fp8
        return groups.modelopt(keys)
    if method is None and keys.has("bits", "mode") and keys.has("group_size", "mode"):
        return groups.mlx(keys)
    if isinstance(method, str) and method.lower() in METHODS:
        return METHODS[method.lower()](keys)
    raise unknown("quant_method", method)
