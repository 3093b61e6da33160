"""llama.cpp's recipes: the ggml type that a file type gives a tensor by its role, its number and its shape."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from kvcalc.catalog.names import did_you_mean
from kvcalc.errors import KvcalcError
from kvcalc.specs.formats import PLAIN, WeightFormat

Role = Literal[
    "token_embd", "output", "attn_v", "attn_k", "attn_q", "attn_output", "ffn_up", "ffn_gate", "ffn_down", "other",
    "kept",
]  # fmt: skip
IMPORTANCE = "i1-"  # in front of a type: made with an importance matrix, as repackers name such files
_PLAIN = {"f32": "fp32", "f16": "fp16", "bf16": "bf16"}


class Shape(NamedTuple):
    """What the recipes ask of a model."""

    layers: int  # MTP layers too
    query_heads_per_kv_head: int  # of the first layer with attention
    experts: int  # 1 without
    architecture: str

    @property
    def seventy(self) -> bool:
        return self.layers == data()["seventy"]["layers"] and self.query_heads_per_kv_head > 1


class Recipe(NamedTuple):
    """A file type: Q4_K_M, with or without an importance matrix."""

    name: str
    importance: bool
    table: dict[str, Any]


class Matrix(NamedTuple):
    """A tensor as the recipes see it."""

    role: Role
    row: int  # elements of a row
    number: int = 0  # among its role's tensors, or its layer
    of: int = 0  # how many there are
    expert: bool = False  # one tensor of three dimensions holds every expert of the layer


@cache
def data() -> dict[str, Any]:
    """File types, and the rules that hold for all of them."""
    return tomllib.loads(files(__package__ or "").joinpath("gguf_types.toml").read_text(encoding="utf-8"))


@cache
def blocks() -> dict[str, tuple[int, int]]:
    """ggml's types by name: elements of a block and its bytes."""
    from kvcalc.catalog.headers.gguf_file import tables

    return {row["name"]: (row["block"], row["bytes"]) for row in tables()["types"].values()}


def type_names() -> tuple[str, ...]:
    """The file types of llama.cpp, as it spells them."""
    return tuple(data()["types"])


def find_recipe(name: str) -> Recipe | None:
    """The recipe that a file type's name means; None: no type of llama.cpp.

    >>> find_recipe("q4_k_m").name, find_recipe("i1-IQ4-XS").importance, find_recipe("fp8")
    ('Q4_K_M', True, None)
    """
    key = _plain(name)
    importance = key.startswith(_plain(IMPORTANCE))
    found = _names().get(key.removeprefix(_plain(IMPORTANCE)) if importance else key)
    if found is None:
        return None
    table = data()["types"][found]
    whole = {**data()["types"][table["like"]], **table} if "like" in table else table
    return Recipe(found, importance or whole.get("needs_imatrix", False), whole)


def recipe(name: str) -> Recipe:
    """The recipe of a file type.

    Raises:
        KvcalcError: no type of llama.cpp, or one without a public recipe.
    """
    found = find_recipe(name)
    if found is not None:
        return found
    if _plain(name).startswith("ud"):
        raise KvcalcError(
            f"{name[:40]}: Unsloth's dynamic mixes have no public recipe",
            hint=f"name the file: owner/repo:{name[:40]}, or take its plain type",
        )
    known = sorted(data()["types"])
    raise KvcalcError(
        f"unknown GGUF type {name[:40]!r}",
        hint=did_you_mean(name[:40], [one.lower() for one in known], f"one of {', '.join(known)}"),
    )


def _plain(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())


@cache
def _names() -> dict[str, str]:
    own = {_plain(name): name for name in data()["types"]}
    others = {_plain(other): name for name, known in data()["spellings"].items() for other in known}
    return {**others, **own}


def ggml_type(made: Recipe, matrix: Matrix, model: Shape) -> str:
    """The type that a tensor comes to have in the file."""
    default: str = made.table["default"]
    if matrix.role == "kept":
        return "f32"
    if default in _PLAIN:
        return default
    return _fitting(_wanted(made, matrix, model), matrix.row)


def _wanted(made: Recipe, matrix: Matrix, model: Shape) -> str:
    """Before the row's length has its say."""
    table, default = made.table, made.table["default"]
    if matrix.role in ("output", "token_embd"):
        return str(table.get(matrix.role) or (_output(made, matrix, model) if matrix.role == "output" else default))
    if "experts" in table:
        return str(table["experts"] if matrix.expert else default)
    eight = data()["eight_experts"] if model.experts == 8 else {}
    low = made.name in data()["eight_experts"]["low"]
    if eight and matrix.role == "attn_output":
        return str(default if made.name in eight["plain_attn_output"] else eight["attn_output"])
    if eight and matrix.role == "attn_k":
        return str(eight["low_attn_k"] if low else eight["attn_k"])
    if eight and matrix.role == "attn_v" and not low:
        return str(eight["attn_v"])
    found = next((row["type"] for row in _rows(made, matrix.role, model) if _holds(row, made, matrix, model)), default)
    seventy = data()["seventy"]
    if matrix.role == "attn_v" and model.seventy and not low and found in seventy["attn_v"]:
        return str(seventy["instead"])
    return str(found)


def _output(made: Recipe, matrix: Matrix, model: Shape) -> str:
    rules = data()["output"]
    own = data()["architectures"].get(model.architecture, {}).get("output")
    if made.name in rules["q8_0"]:
        return "q8_0"
    if own or matrix.row % blocks()[made.table["default"]][0]:
        return own or "q8_0"
    return "q5_k" if made.name in rules["q5_k"] else str(rules["usual"])


def writes(architecture: str, part: Literal["own_output", "mtp"]) -> bool:
    """Does a file of this architecture hold what others leave out?

    own_output: an output matrix where the embedding stands for it. mtp: the multi-token-prediction layers.
    """
    return bool(data()["architectures"].get(architecture, {}).get(part, False))


def rules_of(made: Recipe) -> list[list[dict[str, Any]]]:
    """The rules of a type, by role."""
    return [rules for rules in made.table.values() if isinstance(rules, list)]


def _rows(made: Recipe, role: Role, model: Shape) -> list[dict[str, Any]]:
    own = data()["architectures"].get(model.architecture, {}).get(made.name, {})
    rows: list[dict[str, Any]] = own.get(role, made.table.get(role, []))
    return rows


def _holds(rule: dict[str, Any], made: Recipe, matrix: Matrix, model: Shape) -> bool:
    return all(_is_met(key, value, made, matrix, model) for key, value in rule.items() if key != "type")


def _is_met(condition: str, k: Any, made: Recipe, matrix: Matrix, model: Shape) -> bool:
    """One condition of a rule; divisions are whole, as in the source."""
    i, n, grouped = matrix.number, matrix.of, model.query_heads_per_kv_head
    match condition:
        case "before":
            return bool(i < n // k)
        case "within":
            return bool(n // k <= i < (k - 1) * n // k)
        case "more":
            return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2
        case "first":
            return bool(i < k)
        case "gqa":
            return bool(grouped >= k)
        case "wide":
            return bool(grouped >= k or model.experts >= k)
        case "eight_experts":
            return model.experts == 8
        case "imatrix":
            return bool(made.importance == k)
    raise AssertionError(f"gguf_types.toml: no condition {condition}")


def _fitting(wanted: str, row: int) -> str:
    """A type whose block divides the row."""
    if row % blocks()[wanted][0] == 0:
        return wanted
    other = next((to for to, types in data()["fallback"].items() if wanted in types), "f16")
    return other if other == "f16" or row % blocks()[other][0] == 0 else "f16"


def format_of(name: str) -> WeightFormat:
    """A ggml type as a weight's format; its blocks carry their scales within."""
    if name in _PLAIN:
        return PLAIN[_PLAIN[name]]
    elements, size = blocks()[name]
    return WeightFormat(name=name, compute="fp16", bits=size * 8 / elements)
