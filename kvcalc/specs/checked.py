"""From raw values to a spec, with the mistakes in the user's words."""

import math
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Frozen
from kvcalc.specs.constraints import Checked, FromText, Within

Spec = TypeVar("Spec", bound=Frozen)

# Fields whose flag is not their name with hyphens.
FLAG_OF = {
    "kv_memory_bytes": "--kv-memory",
    "overhead_bytes": "--overhead",
    "cpu_offload_bytes": "--cpu-offload-gb",
    "swap_space_bytes": "--swap-space",
    "price_usd_per_hour": "--price",
    "ttft_s": "--ttft",
    "tpot_s": "--tpot",
    "e2e_s": "--e2e",
    "think_s": "--think-time",
    "tool_s": "--tool-time",
    "step_time_s": "--step-time",
    "kv_offload_bytes": "--kv-offload-gb",
    "network_bandwidth_bytes_per_s": "--network-bandwidth",
}
# Other spellings of flags, without their dashes, and the field that each fills.
OTHER_NAMES = {
    "tp": "tensor_parallel_size", "tp-size": "tensor_parallel_size", "pp": "pipeline_parallel_size",
    "pp-size": "pipeline_parallel_size", "dp": "data_parallel_size", "dp-size": "data_parallel_size",
    "ep": "enable_expert_parallel", "dcp": "decode_context_parallel_size", "q": "quantization",
    "context-length": "max_model_len", "c": "ctx_size", "np": "parallel", "max-running-requests": "max_num_seqs",
    "cuda-graph-max-bs": "max_cudagraph_capture_size",
    "sc": "speculative_config", "ub": "ubatch_size", "fa": "flash_attn", "ngl": "n_gpu_layers", "ncmoe": "n_cpu_moe",
    "ctk": "cache_type_k", "ctv": "cache_type_v", "isl": "input_len", "osl": "output_len",
    "kv-cache-free-gpu-memory-fraction": "free_gpu_memory_fraction",
}  # fmt: skip


def flag_of(field: str) -> str:
    """The flag that fills a field.

    >>> flag_of("tensor_parallel_size"), flag_of("kv_memory_bytes")
    ('--tensor-parallel-size', '--kv-memory')
    """
    return FLAG_OF.get(field, "--" + field.replace("_", "-"))


def settings_of(spec: type[Spec], flags: Mapping[str, Any]) -> tuple[Spec, dict[str, Any]]:
    """A command's own settings among the flags, and what is left of these.

    Raises:
        KvcalcError: as of `checked`.
    """
    names = field_types(spec).keys()
    own = {name: value for name, value in flags.items() if name in names}
    return checked(spec, own), {name: value for name, value in flags.items() if name not in names}


def field_types(spec: type[Frozen]) -> dict[str, Any]:
    """Every field with its annotation."""
    return {one.name: one.type for one in fields(spec)}


def read_from_text(spec: type[Frozen]) -> frozenset[str]:
    """The fields that are numbers with units, which a flag gives as text."""
    return frozenset(name for name, kind in field_types(spec).items() if any(_marks(kind, FromText)))


def is_switch(spec: type[Frozen], field: str) -> bool:
    """Whether a field is on or off.

    >>> from kvcalc.specs.deployment import Deployment
    >>> is_switch(Deployment, "enforce_eager"), is_switch(Deployment, "dtype")
    (True, False)
    """
    return _is_switch(field_types(spec)[field])


def checked(spec: type[Spec], values: dict[str, Any], where: str = "") -> Spec:
    """`spec(**values)`, or a KvcalcError that names the first bad value by its flag.

    Args:
        spec: the class of the value.
        values: by field, as typed or as a file has them.
        where: what stands before the flag in a message, as "budget.toml: ".

    Raises:
        KvcalcError: a value of the wrong kind or out of range, or a name that the spec does not have.
    """
    types = field_types(spec)
    found = {}
    for name, value in values.items():
        flag = flag_of(name)
        hint = f"`--help` says what {flag} takes"
        if name not in types:
            raise KvcalcError(f"{where}{flag}: not known here", hint=hint)
        if isinstance(value, bool) and not _is_switch(types[name]):
            said = f"{str(value).lower()} is not its kind of value"
            raise KvcalcError(f"{where}{flag}: {said}", hint=f"give {flag} a value")
        try:
            found[name] = fitting(types[name], value)
        except ValueError as error:
            hint = "write true or false" if _is_switch(types[name]) else hint
            raise KvcalcError(f"{where}{flag}: {error}", hint=hint) from None
    return spec(**found)


def fitting(kind: Any, value: Any) -> Any:
    """A value as its annotation wants it.

    Raises:
        ValueError: it is of another kind, or out of its limits.
        KvcalcError: text that cannot be read.

    >>> fitting(Annotated[int, Within(ge=1)] | None, 3.0)
    3
    """
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(inside[0], inside[1:], value)
    if origin in (UnionType, Union):
        if value is None and NoneType in inside:
            return None
        (one,) = (one for one in inside if one is not NoneType)
        return fitting(one, value)
    if origin is tuple:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            value = (value,)  # what may be repeated was given once
        if not isinstance(value, list | tuple):
            raise ValueError(f"{_shown(value)} is no list")
        return tuple(fitting(inside[0], one) for one in value)
    if origin is Literal:
        if value not in inside:
            *first, last = map(repr, inside)
            raise ValueError(f"{_shown(value)} is not one of {', '.join(first)} or {last}")
        return value
    return _simple(kind, value)


def _annotated(kind: Any, marks: tuple[Any, ...], value: Any) -> Any:
    for mark in marks:
        if isinstance(mark, FromText):
            value = mark.read(value)
    given, value = value, fitting(kind, value)
    for mark in marks:
        if isinstance(mark, Checked):
            value = mark.check(value)
        elif isinstance(mark, Within) and value is not None and (said := mark.complaint(value)):
            raise ValueError(f"{_shown(given)} {said}")
    return value


def _simple(kind: Any, value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int and number and (isinstance(value, int) or value.is_integer()):
        return int(value)
    if kind is float and number and math.isfinite(value):
        return float(value)
    if kind in (bool, str) and isinstance(value, kind):
        return value
    wanted = {int: "a whole number", float: "a number", str: "text"}
    raise ValueError(f"{_shown(value)} is not {wanted.get(kind, 'its kind of value')}")


def _is_switch(kind: Any) -> bool:
    return kind in (bool, bool | None)


def _marks(kind: Any, mark: type) -> list[Any]:
    return [one for one in getattr(kind, "__metadata__", ()) if isinstance(one, mark)]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
