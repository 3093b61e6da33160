"""Which program a text runs, with which arguments, inside whatever stands around it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvcalc.catalog.serve.containers import containers, dockerfile_as_yaml, is_list
from kvcalc.catalog.serve.shell import assignment, split
from kvcalc.catalog.serve.table import COMMAND_LINES, command_line, index
from kvcalc.catalog.serve.variables import put_in
from kvcalc.errors import KvcalcError

# Options of `docker run` without a value; every other one takes one. (docker/cli, cli/command/container/opts.go)
_DOCKER_SWITCHES = {
    *("-d", "--detach", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "-dit", "-itd", "-q", "--quiet"),
    *("--rm", "--init", "--privileged", "--read-only", "-P", "--publish-all", "--no-healthcheck", "--sig-proxy"),
    *("--oom-kill-disable", "--disable-content-trust"),
}
_TAG = re.compile(r"(?::v?|_vllm_v?)(\d+\.\d+(?:\.\d+)?(?:[.-]?(?:rc|post|dev)\d+)?)(?![\d.])")
_YEARS = 20  # NVIDIA's own images are numbered by year and month
_IMAGE = re.compile(r"--(?:container-)?image=?")  # srun, kubectl run
_BUILD = re.compile(r":[a-z]+-(?:[a-z]+-)?b(\d{3,6})$")  # llama.cpp: server-cuda-b5000


class Call(NamedTuple):
    """A program of an engine and what it was given."""

    line: str  # of table.COMMAND_LINES
    program: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    version: str | None = None  # of the image
    others: int = 0  # more of them in the text


def find_call(text: str, engine: str | None = None) -> Call:
    """The first program of an engine in a text.

    Args:
        text: a command as it was pasted, a script, a compose file, a manifest or a list of arguments.
        engine: whose arguments they are, where no program is named.

    Raises KvcalcError where nothing tells the engine.
    """
    if not text.strip():
        raise KvcalcError("--serve: no command", hint="quote the whole command: --serve 'vllm serve MODEL -tp 2'")
    text = _unwrapped(text)
    calls = list(_calls(text))
    if calls:
        return calls[0]._replace(others=len(calls) - 1)
    bare = _bare(text)
    alone = not bare.words or bare.words[0].startswith("-") or "/" in bare.words[0]
    line = engine if engine in COMMAND_LINES else _likeliest(bare.words, bare.environment) if alone else None
    if line is None:
        known = "vllm serve, sglang.launch_server, trtllm-serve, llama-server, llama-cli or llama-bench"
        raise KvcalcError(
            f"--serve: no server is started in {text.strip()[:60]!r}",
            hint=f"paste the command from the program on: {known}; or name the engine with --engine",
        )
    return bare._replace(line=line)


def _unwrapped(text: str) -> str:
    """A command that was quoted once more, and what a Dockerfile runs as one list."""
    stripped = text.strip()
    if stripped[0] in "'\"" and stripped.endswith(stripped[0]) and stripped.count(stripped[0]) == 2:
        return stripped[1:-1]
    return dockerfile_as_yaml(text) or text


def _calls(text: str) -> Iterator[Call]:
    if is_list(text):
        for container in containers(text):
            yield from _in_words(container.words, dict(container.environment), container.image)
        return
    variables: dict[str, str] = {}
    for words in split(text):
        yield from _in_words(words, variables, None)


def _in_words(words: Sequence[str], variables: dict[str, str], image: str | None) -> Iterator[Call]:
    """`variables` collects what the commands before have set."""
    for i, word in enumerate(words):
        for line in COMMAND_LINES:
            for program in command_line(line).programs:
                if _starts(words[i:], program):
                    _collect(words[:i], variables)
                    given = tuple(put_in(one, variables) for one in words[i + len(program) :])
                    image = image or _docker(words[:i])[0] or _named_image(words[:i])
                    version = _version(image)
                    yield Call(line, " ".join(program), given, dict(variables), version)
                    return
        if i and " " in word and words[i - 1].endswith("c") and words[i - 1].startswith("-"):  # sh -c '…'
            _collect(words[:i], variables)
            outer = image or _named_image(words[:i])
            found = [call for inner in split(word) for call in _in_words(inner, variables, outer)]
            yield from found
            if found:
                return
    _collect(words, variables)
    named = _named_image(words)
    if named and "--" in words:  # kubectl run NAME --image=IMAGE -- ARGUMENTS
        image, behind = named, list(words[list(words).index("--") + 1 :])
    else:
        image, behind = (image, list(words)) if image else _docker(words)
    of_image = _of_image(image)
    if of_image:
        yield Call(of_image, "", tuple(put_in(one, variables) for one in behind), dict(variables), _version(image))


def _starts(words: Sequence[str], program: Sequence[str]) -> bool:
    if len(words) < len(program):
        return False
    first = re.split(r"[/\\]", words[0])[-1].removesuffix(".exe")
    return first == program[0] and list(words[1 : len(program)]) == list(program[1:])


def _collect(words: Sequence[str], variables: dict[str, str]) -> None:
    """Assignments before a program: the shell's, `export`, `env`, and docker's `-e`."""
    for word in words:
        pair = assignment(word.removeprefix("--env=").removeprefix("-e="))
        if pair is not None:
            variables[pair.name] = put_in(pair.value, variables)


def _docker(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The image of `docker run`, and what stands behind it."""
    if "run" not in words:
        return None, []
    at = list(words).index("run") + 1
    while at < len(words) and words[at].startswith("-"):
        at += 1 if "=" in words[at] or words[at] in _DOCKER_SWITCHES else 2
    return (words[at], list(words[at + 1 :])) if at < len(words) else (None, [])


def _named_image(words: Sequence[str]) -> str | None:
    """The image that a flag names."""
    for i, word in enumerate(words):
        if match := _IMAGE.match(word):
            return word[match.end() :] or next(iter(words[i + 1 :]), None)
    return None


def _of_image(image: str | None) -> str | None:
    name = (image or "").lower()
    lines = (command_line(line) for line in COMMAND_LINES)
    return next((line.id for line in lines if any(part in name for part in line.about["images"])), None)


def _version(image: str | None) -> str | None:
    """The version that an image's tag names."""
    match = _TAG.search(image or "") or _BUILD.search(image or "")
    if match is None or ("." in match[1] and int(match[1].partition(".")[0]) >= _YEARS):
        return None
    return match[1]


def _bare(text: str) -> Call:
    """A text without a program, as if it were arguments alone."""
    if is_list(text):
        found = containers(text)
        words, variables = (found[0].words, dict(found[0].environment)) if found else ((), {})
    else:
        words, variables = tuple(word for command in split(text) for word in command), {}
    lead = next((i for i, word in enumerate(words) if assignment(word) is None), len(words))
    _collect(words[:lead], variables)
    return Call("", "", tuple(put_in(word, variables) for word in words[lead:]), variables)


def _likeliest(words: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The command line that knows the most of the flags, if one does and another does not."""
    given = {word.partition("=")[0] for word in words if word.startswith("-")} | set(environment)
    known = {line: sum(name in index(line) for name in given) for line in COMMAND_LINES if line != "llamabench"}
    best = max(known.values())
    first = [line for line, count in known.items() if count == best]
    return first[0] if best and len(first) == 1 else None
