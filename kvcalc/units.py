"""Parse and format quantities. The only module that multiplies a prefix (k, Ki, GB, GiB).

Inside kvcalc every quantity is in base units: bytes, seconds, FLOP/s, tokens.
"""

import re
from collections.abc import Mapping
from fractions import Fraction

from kvcalc.errors import KvcalcError

DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
KIB, MIB, GIB = BINARY["Ki"], BINARY["Mi"], BINARY["Gi"]
GB = DECIMAL["G"]
MICROSECOND, MILLISECOND = 1e-6, 1e-3

# As vLLM reads a number: a small letter is a power of ten, a capital one a power of two.
_TIMES_ONE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_BYTES = {f"{prefix}B": factor for prefix, factor in (DECIMAL | BINARY).items()}
_BITS = {f"{prefix}{bit}": Fraction(DECIMAL[prefix], 8) for prefix in "kMGT" for bit in ("bit", "bps")}
_SECONDS = {"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "µs": Fraction(1, 10**6),
            "ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600)}  # fmt: skip
_NUMBER = r"([0-9]+(?:_[0-9]{3})*(?:\.[0-9]+)?|\.[0-9]+)\s*([a-zA-Zµ]*|%)\Z"
_LARGEST = 10**18  # beyond any quantity this program is about; keeps int() and float() quick and finite


def _read(text: str, what: str, hint: str, units: Mapping[str, Fraction | int]) -> Fraction:
    """A number times what its unit is worth."""
    cleaned = text.strip().replace(",", "") if re.fullmatch(r"\s*[0-9]{1,3}(,[0-9]{3})+\D*", text) else text.strip()
    match = re.match(_NUMBER, cleaned) if len(cleaned) <= 40 else None
    if match is None:
        raise KvcalcError(f"{what}: cannot read {_shown(text)}", hint=hint)
    number, unit = Fraction(match[1].replace("_", "")), match[2]
    if unit not in units:
        missing = f"has an unknown unit {_shown(unit)}" if unit else "has no unit"
        raise KvcalcError(f"{what}: {_shown(text)} {missing}", hint=hint)
    if units is _TIMES_ONE and unit.isupper() and number.denominator != 1:  # nobody agrees on what 8.5K means
        raise KvcalcError(f"{what}: {_shown(text)} mixes a fraction with a power of two", hint=hint)
    if (value := number * units[unit]) > _LARGEST:
        raise KvcalcError(f"{what}: {_shown(text)} is out of range", hint=hint)
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _whole(text: str, what: str, hint: str) -> int:
    value = _read(text, what, hint, _TIMES_ONE)
    if value.denominator != 1:
        raise KvcalcError(f"{what}: {_shown(text)} is not a whole number", hint=hint)
    return int(value)


def parse_tokens(text: str, what: str = "tokens") -> int:
    """Read a number of tokens as vLLM does: `8192`, `8k` = 8,000, `8K` = 8,192, `25.6k` = 25,600.

    A fraction of a power of two (`8.5K`) is refused, because nobody agrees on what it means.

    Raises:
        KvcalcError: no whole number of tokens, or an unknown unit.

    >>> parse_tokens("8k"), parse_tokens("8K"), parse_tokens("25.6k")
    (8000, 8192, 25600)
    """
    return _whole(text, what, "write a whole number, with k = 1,000 or K = 1,024: 8192, 8k, 8K, 25.6k")


def parse_bytes(text: str, what: str = "size") -> int:
    """Read a size in bytes; the unit is required, and GB is not GiB.

    Raises:
        KvcalcError: no number, or no unit that is known.

    >>> parse_bytes("50GB"), parse_bytes("50 GiB"), parse_bytes("512B")
    (50000000000, 53687091200, 512)
    """
    return int(_read(text, what, "give a number with its unit: 80GB (decimal) or 80GiB (binary)", _BYTES))


def parse_bandwidth(text: str, what: str = "bandwidth") -> float:
    """Read bytes per second, with or without "/s"; links are also sold in bits.

    Raises:
        KvcalcError: no number, or no unit that is known.

    >>> parse_bandwidth("96GB/s"), parse_bandwidth("25 GB"), parse_bandwidth("400Gbit/s")
    (96000000000.0, 25000000000.0, 50000000000.0)
    """
    hint = "give a number with its unit: 50GB/s, or 400Gbit/s"
    return float(_read(text.strip().removesuffix("/s"), what, hint, {**_BYTES, **_BITS}))


def parse_gib(text: str, what: str = "size") -> int:
    """Read a size that vLLM takes as a bare number of GiB (`--cpu-offload-gb`, `--swap-space`).

    >>> parse_gib("4") == 4 * 2**30
    True
    """
    return int(_read(text, what, "give a bare number of GiB, as vLLM takes it: 4", _BYTES | {"": GIB}))


def parse_seconds(text: str, what: str = "time") -> float:
    """Read a time; the unit is required.

    Raises:
        KvcalcError: no number, or no unit that is known.

    >>> parse_seconds("50ms"), parse_seconds("1s")
    (0.05, 1.0)
    """
    return float(_read(text, what, "give a number with its unit: 50ms, 1s, 2min", _SECONDS))


def parse_count(text: str, what: str = "count") -> int:
    """Read a whole number of things: sequences, GPUs, users; written as tokens are.

    Raises:
        KvcalcError: no whole number.

    >>> parse_count("1,024"), parse_count("2k")
    (1024, 2000)
    """
    return _whole(text, what, "write a whole number: 8, or 2k = 2,000")


def parse_number(text: str, what: str = "number", example: str = "1.5") -> float:
    """Read a plain number, whole or not: a rate, a price, a factor; `example` of one is for the hint.

    Raises:
        KvcalcError: no number, or one with a unit.

    >>> parse_number("0.92"), parse_number(".5"), parse_number("500k")
    (0.92, 0.5, 500000.0)
    """
    return float(_read(text, what, f"write a plain number: {example}", _TIMES_ONE))


def parse_share(text: str, what: str = "share") -> float:
    """Read a part of a whole: a number from 0 to 1, or a percentage.

    Raises:
        KvcalcError: neither.

    >>> parse_share("0.92"), parse_share("92%")
    (0.92, 0.92)
    """
    return float(_read(text, what, "write a share: 0.9, or 90%", {"": 1, "%": Fraction(1, 100)}))


def _scaled(value: float, factors: dict[str, int], digits: int) -> tuple[str, str]:
    name, factor = max(((n, f) for n, f in factors.items() if abs(value) >= f), key=lambda one: one[1], default=("", 1))
    number = value / factor
    whole = factor == 1 and float(value).is_integer()
    return (f"{number:,.0f}" if whole else f"{number:,.{digits}f}"), name


def format_short_bytes(value: float) -> str:
    """Three digits and a binary prefix: for a narrow column.

    >>> format_short_bytes(1018.2 * 2**20), format_short_bytes(17 * 2**30), format_short_bytes(0)
    ('0.99 GiB', '17.0 GiB', '0 B')
    """
    if value < 999.5:
        return f"{value:.0f} B"
    for prefix, factor in BINARY.items():
        if value < 999.5 * factor:
            return f"{three_digits(value / factor)} {prefix}B"
    return format_bytes(value)


def format_bytes(value: float, digits: int = 2) -> str:
    """Binary prefixes: what a GPU's memory and an engine's log speak.

    >>> format_bytes(131072), format_bytes(16060522496), format_bytes(0)
    ('128.00 KiB', '14.96 GiB', '0 B')
    """
    number, prefix = _scaled(value, {"": 1, **BINARY}, digits)
    return f"{number} {prefix}B"


def format_gib(value: float, digits: int = 2) -> str:
    """Always in GiB, as engines log it, so that a column compares at a glance.

    >>> format_gib(268435456), format_gib(16060522496, 1), format_gib(0)
    ('0.25 GiB', '15.0 GiB', '0 GiB')
    """
    return f"{value / GIB:,.{digits}f} GiB" if value else "0 GiB"


def format_decimal_bytes(value: float, digits: int = 1) -> str:
    """Decimal prefixes: what a vendor's data sheet and a bandwidth speak.

    >>> format_decimal_bytes(16060522496), format_decimal_bytes(3.35e12, 2)
    ('16.1 GB', '3.35 TB')
    """
    number, prefix = _scaled(value, DECIMAL, digits)
    return f"{number} {prefix}B"


def format_si(value: float, unit: str) -> str:
    """A quantity with a decimal prefix, to three digits.

    >>> format_si(989e12, "FLOP/s"), format_si(68.7e9, ""), format_si(999.9e9, "FLOP"), format_si(0, "FLOP")
    ('989 TFLOP/s', '68.7 G', '1.00 TFLOP', '0 FLOP')
    """
    prefix = next((name for name, factor in DECIMAL.items() if value < 999.5 * factor), "P")
    number = three_digits(value / DECIMAL[prefix]) if prefix else f"{value:.0f}"
    return f"{number} {prefix}{unit}".rstrip()


def format_tera(value: float, unit: str = "FLOP/s", digits: int = 1) -> str:
    """A rate in tera, whatever its size, so that a column compares at a glance.

    >>> format_tera(1.979e15), format_tera(989e12, digits=0)
    ('1,979.0 TFLOP/s', '989 TFLOP/s')
    """
    return f"{value / DECIMAL['T']:,.{digits}f} T{unit}"


def format_gigabytes(value: float) -> str:
    """A bandwidth or a data sheet's memory in whole GB, so that a column compares at a glance.

    >>> format_gigabytes(3.35e12), format_gigabytes(204.8e9)
    ('3,350 GB', '205 GB')
    """
    return f"{value / GB:,.0f} GB"


def format_count(value: float) -> str:
    """A number with thousands separated.

    >>> format_count(381469)
    '381,469'
    """
    return f"{value:,.0f}"


def format_tokens(value: int) -> str:
    """A context as it is typed: in binary thousands where it is a whole number of them.

    >>> format_tokens(131072), format_tokens(8192), format_tokens(40000)
    ('128K', '8K', '40,000')
    """
    return f"{value // 1024}K" if value and value % 1024 == 0 else f"{value:,}"


def format_things(value: int, noun: str) -> str:
    """A number of things.

    >>> format_things(1, "sequence"), format_things(1200, "GPU")
    ('1 sequence', '1,200 GPUs')
    """
    return f"{value:,} {noun}" + ("" if value == 1 else "s")


def format_parameters(value: float) -> str:
    """A parameter count the way people say it.

    >>> format_parameters(8030261248), format_parameters(134515008)
    ('8.03 B', '135 M')
    """
    for name, factor in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= factor:
            return f"{three_digits(value / factor)} {name}"
    return f"{value:,.0f}"


def format_seconds(value: float) -> str:
    """A time in the unit that suits it, to three digits: no estimate knows more.

    >>> format_seconds(0.00992), format_seconds(0.82), format_seconds(4.2e-6), format_seconds(0.99999)
    ('9.92 ms', '820 ms', '4.20 µs', '1.00 s')
    """
    for unit, factor in (("µs", MICROSECOND), ("ms", MILLISECOND)):
        if value < 999.5 * factor:
            return f"{three_digits(value / factor)} {unit}"
    return f"{three_digits(value)} s"


def three_digits(value: float) -> str:
    """
    >>> three_digits(4.2), three_digits(42.04), three_digits(420.4), three_digits(4204.2)
    ('4.20', '42.0', '420', '4,204')
    """
    for digits, limit in ((2, 9.995), (1, 99.95)):
        if abs(value) < limit:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def format_usd(value: float) -> str:
    """Money per million tokens or per hour.

    >>> format_usd(1.19), format_usd(0.0372)
    ('$1.19', '$0.037')
    """
    return f"${value:,.2f}" if value >= 0.1 else f"${value:.3f}"
