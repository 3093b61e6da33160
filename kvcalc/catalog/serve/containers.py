"""Compose files, Kubernetes manifests and bare argument lists → command lines."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kvcalc.catalog.serve.shell import assignment, split
from kvcalc.errors import KvcalcError

_YAML = re.compile(r"\s*(?:#[^\n]*\n\s*)*(?:\{\s*\"|-\s|---|(?!\[\w+\]\s*\n)\[\s*[\"'\w-]|[\w.-]+:(?:\s|$))")
_LONGEST = 200_000


class Container(NamedTuple):
    """What runs in a container."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    image: str | None


def is_list(text: str) -> bool:
    """Whether a text is YAML or a JSON list and no shell command.

    >>> is_list('["--model", "m"]'), is_list("- --model\\n- m"), is_list("vllm serve m")
    (True, True, False)
    """
    return _YAML.match(text) is not None


def containers(text: str) -> list[Container]:
    """Every mapping with `command`, `args` or `entrypoint`, and a list that stands alone.

    Raises KvcalcError for what is no YAML.
    """
    import yaml

    if len(text) > _LONGEST:
        raise KvcalcError("--serve: the text is too long", hint="give the part that starts the server")
    try:
        documents = list(yaml.load_all(text, Loader=yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader))
    except (yaml.YAMLError, RecursionError) as error:
        first = str(error).splitlines()[0]
        raise KvcalcError(
            f"--serve: not a command, and not YAML either: {first}", hint="quote it as one word"
        ) from None
    return [found for document in documents for found in _within(document)]


_INSTRUCTION = re.compile(r"^\s*(FROM|ENV|ENTRYPOINT|CMD)\s+(.+)$", re.MULTILINE)


def dockerfile_as_yaml(text: str) -> str | None:
    """What a Dockerfile runs, as a container of a compose file; None where it is no Dockerfile.

    >>> dockerfile_as_yaml('FROM vllm/vllm-openai:v0.11.0\\nCMD ["--model", "m"]')
    '{"image": "vllm/vllm-openai:v0.11.0", "command": ["--model", "m"]}'
    """
    found = dict(_INSTRUCTION.findall(text.replace("\\\n", " ")))
    if not found.keys() & {"ENTRYPOINT", "CMD"}:
        return None
    image = found.get("FROM", "").split()
    parts = {"entrypoint": found.get("ENTRYPOINT"), "command": found.get("CMD")}
    made: dict[str, Any] = {"image": image[0]} if image else {}
    for name, words in parts.items():
        if words is not None:
            made[name] = _json_list(words)
    return json.dumps(made)


def _json_list(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _within(value: Any) -> Iterator[Container]:
    if isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield Container(words=_words(value), environment={}, image=None)
            return
        for item in value:
            yield from _within(item)
    elif isinstance(value, dict):
        parts = [value[key] for key in ("entrypoint", "command", "args") if key in value]
        words = tuple(word for part in parts for word in _words(part))
        if words or ("image" in value and ("env" in value or "environment" in value)):
            image = value.get("image")
            yield Container(words, _environment(value), image if isinstance(image, str) else None)
            return
        for item in value.values():
            yield from _within(item)


def _words(value: Any) -> tuple[str, ...]:
    """A list is taken word by word, but that `--flag value` in one item is two; a string is the shell's."""
    if isinstance(value, str):
        return tuple(word for command in split(value.replace("\n", " ")) for word in command)
    found: list[str] = []
    for item in value if isinstance(value, list) else ():
        text = str(item)
        two = text.startswith("-") and " " in text.strip() and "=" not in text.split()[0]
        found += [word for command in split(text) for word in command] if two else [text]
    return tuple(found)


def _environment(value: dict[str, Any]) -> dict[str, str]:
    """Compose's `environment` (list or mapping) and Kubernetes' `env`."""
    found: dict[str, str] = {}
    given = value.get("environment", value.get("env"))
    if isinstance(given, dict):
        found |= {str(name): str(text) for name, text in given.items()}
    for item in given if isinstance(given, list) else ():
        if isinstance(item, str) and (pair := assignment(item)):
            found[pair.name] = pair.value
        elif isinstance(item, dict) and isinstance(item.get("value"), str):
            found[str(item.get("name"))] = item["value"]
    return found
