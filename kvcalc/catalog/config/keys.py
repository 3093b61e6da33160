"""Read the keys of a config.json: nesting, aliases, absent against null, types; and remember what was read.

An absent key means what its class declares (`defaults`); an explicit null means "none", so it reads as None and never
as the class default. Every reading method takes the aliases of one quantity, the first present one wins.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from kvcalc.errors import KvcalcError

Json = Mapping[str, object]
MOST_ENTRIES = 10_000  # of a list in a config: no model has that many layers
# Names that go beside another without meaning the same: lengths that a model was trained or is served at, a padded
# vocabulary, a sampler's top_k in configs whose model has another key for its experts.
BESIDE = (
    "top_k", "n_positions", "n_ctx", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "padded_vocab_size",
)  # fmt: skip
# Names that stand for another thing in some families: Zamba's width of a plain head, heads of a state.
SECOND_MEANINGS = ("kv_channels", "embedding_dim", "num_local_experts", "dim", "num_heads")


def shown(value: object) -> str:
    """A value for an error message: short whatever was put in."""
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:37] + "...")
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list | tuple) else "something else"


class Keys:
    """One object of a config and what its class declares for the keys it leaves out."""

    def __init__(self, values: object, where: str = "", defaults: Json | None = None) -> None:
        if not isinstance(values, Mapping):
            what = where or "the config"
            raise KvcalcError(
                f"{what} is {shown(values)}, not an object", hint="give the config.json of a model: { ... }"
            )
        self._values = values
        self._defaults: Json = defaults or {}
        self._where = where
        self._over: Json = {}
        self._read: set[str] = set()
        self._opened: dict[str, Keys] = {}  # nested objects that were asked for
        self._doubts: dict[str, str] = {}

    def with_defaults(self, defaults: Json) -> "Keys":
        """The same keys, with what its class declares for absent ones; what was read stays remembered."""
        other = Keys(self._values, self._where, defaults)
        other._read, other._opened, other._doubts = self._read, self._opened, self._doubts
        return other

    def over(self, values: Json) -> "Keys":
        """The same keys as one layer sees them: `values` come before what the config says."""
        if not values:
            return self
        other = self.with_defaults(self._defaults)
        other._over = {**self._over, **values}
        return other

    # What is there --------------------------------------------------------------------------------------------------

    def path(self, name: str) -> str:
        """How an error message names a key: `text_config.hidden_size`."""
        return f"{self._where}.{name}" if self._where else name

    def has(self, *names: str) -> bool:
        """Whether one of these keys has a value: said by the config, or declared by its class."""
        return self.raw(*names) is not None

    def given(self, *names: str) -> bool:
        """Whether the config itself says one of these keys, be it null."""
        return any(name in self._values for name in names)

    def known_to_say(self, name: str) -> bool:
        """Whether the config says the key or its class declares it, be it null."""
        return name in self._over or name in self._values or name in self._defaults

    def names(self) -> Iterable[str]:
        """Keys that the config says."""
        return (name for name in self._values if isinstance(name, str))

    def known(self) -> set[str]:
        """Keys that the config says or its class declares."""
        return {*self.names(), *self._defaults}

    def unread(self) -> list[str]:
        """Keys of the config that nothing has asked for yet."""
        return [name for name in self.names() if name not in self._read]

    @property
    def name(self) -> str:
        """The key that holds this object; "" for the whole config."""
        return self._where.rpartition(".")[2]

    def views(self, other: "Keys") -> bool:
        """Whether both are of the same object of the config."""
        return self._values is other._values

    def value(self, name: str) -> object:
        """What the config says of a key, without it counting as read."""
        return self._values.get(name)

    def was_read(self, name: str) -> bool:
        return name in self._read

    def declares(self, name: str) -> object:
        """What its class declares for a key, without it counting as read."""
        return self._defaults.get(name)

    def declared(self, name: str) -> bool:
        """Whether the config says no more of a key than its class does."""
        return name in self._defaults and self._defaults[name] == self._values.get(name)

    def opened(self) -> "Iterable[Keys]":
        """Nested objects that were asked for."""
        return self._opened.values()

    def doubt(self, name: str, why: str) -> None:
        """Remember that a key was not taken at its word: it is said with the answer."""
        self._doubts.setdefault(self.path(name), why)

    def doubts(self) -> Json:
        """What was doubted, by the path of its key."""
        return self._doubts

    def ignore(self, *names: str) -> None:
        """Mark keys as understood without a value being needed."""
        self._read.update(names)

    def raw(self, *names: str, default: object = None) -> object:
        """The value as it stands, of the first name present; else what the class declares; else `default`."""
        self._read.update(names)
        for name in names:
            if name in self._over:
                return self._over[name]
        for name in names:
            if name in self._values:
                return self._values[name]
        for name in names:
            if name in self._defaults:
                return self._defaults[name]
        return default

    def _found(self, names: Sequence[str]) -> str:
        return self.path(next((name for name in names if name in self._values), names[0]))

    def error(self, names: Sequence[str], value: object, wanted: str) -> KvcalcError:
        return KvcalcError(f"{self._found(names)} is {shown(value)}, not {wanted}", hint="correct it in the config")

    # Typed ----------------------------------------------------------------------------------------------------------

    def integer(self, *names: str, default: int | None = None, least: int = 1, most: int = 10**8) -> int | None:
        """A whole number between `least` and `most`, or None where it is null or said nowhere."""
        value = self.raw(*names, default=default)
        if value is None:
            return None
        whole = self._whole(names, value, least, most)
        self._refuse_another(names, whole)
        return whole

    def _refuse_another(self, names: Sequence[str], taken: int) -> None:
        """One quantity under two names has one value. Some names have a second meaning; a layer may say its own."""
        if any(name in self._over for name in names):
            return
        said = {name: self._values[name] for name in names if name in self._values and name not in BESIDE}
        first = next((name for name, value in said.items() if value == taken), None)
        for name, value in said.items():
            if first is None or value in (None, False, 0, taken):
                continue  # off: the quantity has its value under the other name
            if name in SECOND_MEANINGS or isinstance(value, bool) or not isinstance(value, int | float):
                self.doubt(name, f"it is {shown(value)}, and {first}, which is taken, is {taken}")
                continue
            raise KvcalcError(
                f"{self.path(first)} is {taken} and {self.path(name)} is {shown(value)}, and they mean the same",
                hint="correct one of them in the config",
            )

    def need(self, *names: str, least: int = 1, most: int = 10**8) -> int:
        """A whole number that the model cannot be read without."""
        value = self.integer(*names, least=least, most=most)
        if value is None:
            others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
            raise KvcalcError(
                f"the config has no {self.path(names[0])}{others}",
                hint="is this a language model's config.json? add the key if it was left out",
            )
        return value

    def count(self, *names: str, default: int = 0, most: int = 10**8) -> int:
        """A whole number that may be nought; null means nought."""
        return self.integer(*names, default=default, least=0, most=most) or 0

    def flag(self, *names: str, default: bool = False) -> bool:
        """true or false; null means false."""
        value = self.raw(*names, default=default)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.error(names, value, "true or false")
        return value

    def truth(self, name: str) -> bool:
        """Whether a key is on: anything that is not absent, null, false, nought or empty."""
        return self.raw(name) not in (None, False, 0, "")

    def number(self, *names: str, default: float | None = None, least: float = 0, most: float = 1e12) -> float | None:
        """A finite number between `least` and `most`, or None."""
        value = self.raw(*names, default=default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.error(names, value, f"a number between {least:g} and {most:g}")
        return float(value)

    def text(self, *names: str, default: str | None = None) -> str | None:
        value = self.raw(*names, default=default)
        if value is None:
            return None
        if not isinstance(value, str) or len(value) > 1000:
            raise self.error(names, value, "a short text")
        return value

    def integers(self, *names: str, least: int = 0, most: int = 10**8) -> list[int] | None:
        """A list of whole numbers, or None."""
        entries = self._entries(names)
        return None if entries is None else [self._whole(names, entry, least, most) for entry in entries]

    def entry(self, name: str, index: int) -> int:
        """One entry of a list of whole numbers, or the number itself where the config has one for all."""
        self._read.add(name)
        value = self._values.get(name, self._defaults.get(name))
        if isinstance(value, list | tuple):
            if index >= len(value):
                raise KvcalcError(f"{self.path(name)} has no entry {index}", hint="correct it in the config")
            value = value[index]
        return 0 if value is None else self._whole((name,), value, 0, 10**8)

    def texts(self, *names: str) -> list[str] | None:
        """A list of texts, or None."""
        entries = self._entries(names)
        if entries is None:
            return None
        for entry in entries:
            if not isinstance(entry, str) or len(entry) > 1000:
                raise self.error(names, entry, "a list of texts")
        return [str(entry) for entry in entries]

    def child(self, *names: str) -> "Keys | None":
        """A nested object, or None where there is none."""
        value = self.raw(*names)
        if value is None:
            return None
        where = self._found(names)
        if where not in self._opened or self._opened[where]._values is not value:
            self._opened[where] = Keys(value, where)
            self._opened[where]._doubts = self._doubts
        return self._opened[where]

    def children(self, *names: str) -> list["Keys"] | None:
        """A list of nested objects, or None."""
        entries = self._entries(names)
        if entries is None:
            return None
        return [Keys(entry, f"{self._found(names)}[{index}]") for index, entry in enumerate(entries)]

    def _entries(self, names: Sequence[str]) -> list[object] | None:
        value = self.raw(*names)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.error(names, value, "a list")
        if len(value) > MOST_ENTRIES:
            size = f"{len(value)} entries, more than {MOST_ENTRIES}"
            raise KvcalcError(f"{self._found(names)} has {size}", hint="is the config damaged?")
        return list(value)

    def _whole(self, names: Sequence[str], value: object, least: int, most: int) -> int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            whole = True  # 4096.0, as some writers of JSON put it
        if not whole or not least <= value <= most:  # type: ignore[operator]
            raise self.error(names, value, f"a whole number between {least} and {most}")
        return int(value)  # type: ignore[call-overload, no-any-return]
