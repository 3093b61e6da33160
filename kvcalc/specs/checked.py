"""From raw values to a spec, with the mistakes in the user's words."""

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kvcalc.errors import KvcalcError

Spec = TypeVar("Spec", bound=BaseModel)

UNKNOWN_FIELD = "unknown field"
# Fields whose flag is not their name with hyphens.
FLAG_OF = {
    "kv_memory_bytes": "--kv-memory",
    "overhead_bytes": "--overhead",
    "cpu_offload_bytes": "--cpu-offload-gb",
    "swap_space_bytes": "--swap-space",
    "price_usd_per_hour": "--price",
    "ttft_s": "--ttft",
    "tpot_s": "--tpot",
}


def flag_of(field: str) -> str:
    """The flag that fills a field.

    >>> flag_of("tensor_parallel_size"), flag_of("kv_memory_bytes")
    ('--tensor-parallel-size', '--kv-memory')
    """
    return FLAG_OF.get(field, "--" + field.replace("_", "-"))


def checked(spec: type[Spec], values: dict[str, Any], where: str = "") -> Spec:
    """`spec(**values)`, or a KvcalcError that names the first bad value by its flag.

    Args:
        spec: the class of the value.
        values: by field, as typed or as a file has them.
        where: what stands before the flag in a message, as "budget.toml: ".

    Raises:
        KvcalcError: a value of the wrong kind or out of range, or a name that the spec does not have.
    """
    for name, value in values.items():
        declared = spec.model_fields.get(name)
        if declared is None or value is None:
            continue
        flag, is_switch = flag_of(name), declared.annotation in (bool, bool | None)
        if isinstance(value, bool) and not is_switch:
            raise KvcalcError(
                f"{where}{flag}: {str(value).lower()} is not its kind of value", hint=f"give {flag} a value"
            )
        if is_switch and not isinstance(value, bool):
            raise KvcalcError(f"{where}{flag}: {value!r} is not its kind of value", hint="write true or false")
    try:
        return spec.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        flag = flag_of(str(first["loc"][0]) if first["loc"] else "")
        raise KvcalcError(f"{where}{flag}: {_complaint(first)}", hint=f"`--help` says what {flag} takes") from None


def first_mistake(error: ValidationError) -> tuple[str, str]:
    """The first field that is wrong, with dots where it is nested ("" for the whole), and what is wrong with it."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])[:80]
    plain = {"extra_forbidden": UNKNOWN_FIELD, "missing": "missing"}
    said = str(first["msg"])[:200].removeprefix("Value error, ").replace("\n", " ")
    return where, plain.get(first["type"], said)


def _complaint(error: Any) -> str:
    value = repr(error["input"])
    shown = value if len(value) <= 60 else value[:57] + "..."
    limits = error.get("ctx", {})
    match error["type"]:
        case "greater_than_equal":
            return f"{shown} is below {limits['ge']}"
        case "greater_than":
            return f"{shown} must be above {limits['gt']}"
        case "less_than_equal":
            return f"{shown} is above {limits['le']:,}"
        case "literal_error":
            return f"{shown} is not one of {limits['expected']}"
        case "extra_forbidden":
            return "not known here"
        case _:
            return f"{shown}: {error['msg']}"
