"""A command inside a container: a compose file, a Kubernetes manifest."""

import json
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from kvcalc.catalog.serve.emit import Command
from kvcalc.catalog.serve.hardware import Hardware
from kvcalc.catalog.serve.table import command_line

CACHE = "/root/.cache/huggingface"
_PLAIN = re.compile(r"[A-Za-z/][\w/.@:=+-]*\Z")


def container_words(command: Command) -> tuple[str, ...]:
    """What stands behind the image: the program unless the image starts it, the model and the flags."""
    about = command_line(command.engine).about
    listens = ("--host", "0.0.0.0", "--port", str(about["port"]))
    if about["image_program"]:
        return (*command.words, *listens)
    return (about["image_takes"], command.model, *command.arguments, *listens)


class Folder(NamedTuple):
    """A folder of the machine where the model's file is, and its place in the container."""

    outside: str
    inside: str
    relative: bool  # the command names the file from there


def folder_of(command: Command) -> Folder | None:
    """Where a model that is a file or a folder lies; None: the engine downloads it.

    >>> folder_of(Command("vllm", None, "/data/qwen", (), (), (), ()))
    Folder(outside='/data', inside='/data', relative=False)
    """
    path = command.model
    if path.startswith("/"):
        parent = str(PurePosixPath(path).parent)
        return Folder(parent, parent, False)
    if path.endswith(".gguf") or path.startswith(("./", "../")) or Path(path).is_dir():
        return Folder("./", "/models", True)
    return None


class Pool(NamedTuple):
    """Servers of one kind among several: prompts on these, decoding on those."""

    name: str
    command: Command
    replicas: int
    address: str | None = None  # the variable that says where others reach a server


def compose(command: Command, gpus: int, on: Hardware) -> str:
    """A compose file with one service.

    Args:
        command: what it runs.
        gpus: of this machine that it gets, the first ones.
        on: the image, and how a container is given GPUs.
    """
    return _file(_service(Pool("server", command, 1), gpus, on, _port(command)))


def compose_pools(pools: Sequence[Pool], gpus: int, on: Hardware) -> str:
    """A compose file with a service a pool: one server of each, on GPUs of its own of this machine.

    Args:
        pools: what each runs.
        gpus: of each.
        on: the image, and how a container is given GPUs.
    """
    lines: list[str] = []
    for place, pool in enumerate(pools):
        lines += _service(pool, range(place * gpus, (place + 1) * gpus), on, _port(pool.command) + place)
    return _file(lines)


def _file(services: Sequence[str]) -> str:
    return "\n".join(["services:", *services, "volumes:", "  hub: {}", ""])


def _port(command: Command) -> int:
    return int(command_line(command.engine).about["port"])


def _service(pool: Pool, gpus: int | range, on: Hardware, outside: int) -> list[str]:
    """The lines of one service, on so many GPUs or on those of these numbers; `outside` is its port on the machine."""
    variables = {pool.address: pool.name} if pool.address else {}
    if on.visible:
        variables[on.visible] = json.dumps(",".join(map(str, range(gpus) if isinstance(gpus, int) else gpus)))
    said = ", ".join(f"{name}: {value}" for name, value in variables.items())
    folder = folder_of(pool.command)
    mounted = "" if folder is None else f', "{folder.outside}:{folder.inside}"'
    return [
        f"  {pool.name}:",
        f"    image: {on.image}",
        f'    ports: ["{outside}:{_port(pool.command)}"]',
        "    ipc: host",
        f'    volumes: ["hub:{CACHE}"{mounted}]',
        *(["    working_dir: /models"] if folder is not None and folder.relative else []),
        *([f"    environment: {{{said}}}"] if said else []),
        "    command:",
        *_items(container_words(pool.command), 6),
        *_devices(gpus, on),
    ]


def _devices(gpus: int | range, on: Hardware) -> list[str]:
    """What of the machine a service is given: some GPUs by number, or the vendor's devices as they are."""
    if on.paths:
        return [
            f"    devices: [{', '.join(on.paths)}]",
            *([f"    group_add: [{', '.join(on.groups)}]"] if on.groups else []),
            *([f"    security_opt: [{', '.join(on.security)}]"] if on.security else []),
        ]
    named = f"count: {gpus}"
    if not isinstance(gpus, int):
        named = f"device_ids: [{', '.join(json.dumps(str(i)) for i in gpus)}]"
    return [
        "    deploy:",
        "      resources:",
        "        reservations:",
        f"          devices: [{{driver: nvidia, {named}, capabilities: [gpu]}}]",
    ]


def kubernetes_pools(pools: Sequence[Pool], gpus: int, on: Hardware) -> str:
    """A Deployment and its Service a pool."""
    return "---\n".join(kubernetes(one, gpus, on) for one in pools)


def kubernetes(pool: Pool, gpus: int, on: Hardware) -> str:
    """A Deployment and its Service.

    Args:
        pool: what each pod runs, how many there are, and the name of both.
        gpus: of each pod.
        on: the image, and how a pod asks for GPUs.
    """
    name, command, port = pool.name, pool.command, _port(pool.command)
    where = "{fieldRef: {fieldPath: status.podIP}}"
    folder = folder_of(command)
    here = "" if folder is None else f", {{name: models, mountPath: {folder.inside}}}"
    there = "" if folder is None else f", {{name: models, hostPath: {{path: {folder.inside}}}}}"
    key = "command" if command_line(command.engine).about["image_program"] else "args"
    return "\n".join([
        "apiVersion: apps/v1",
        "kind: Deployment",
        f"metadata: {{name: {name}}}",
        "spec:",
        f"  replicas: {pool.replicas}",
        f"  selector: {{matchLabels: {{app: {name}}}}}",
        "  template:",
        f"    metadata: {{labels: {{app: {name}}}}}",
        "    spec:",
        "      containers:",
        f"        - name: {name}",
        f"          image: {on.image}",
        f"          {key}:",
        *_items(container_words(command), 12),
        *([f"          env: [{{name: {pool.address}, valueFrom: {where}}}]"] if pool.address else []),
        f"          ports: [{{containerPort: {port}}}]",
        f"          resources: {{limits: {{{on.resource}: {gpus}}}}}",
        *(["          workingDir: /models"] if folder is not None and folder.relative else []),
        f"          volumeMounts: [{{name: shm, mountPath: /dev/shm}}{here}]",
        f"      volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}{there}]",
        "---",
        "apiVersion: v1",
        "kind: Service",
        f"metadata: {{name: {name}}}",
        "spec:",
        f"  selector: {{app: {name}}}",
        f"  ports: [{{port: {port}}}]",
        "",
    ])  # fmt: skip


def _items(words: Sequence[str], indent: int) -> list[str]:
    """A YAML list; what could be taken for a number, a mapping or a date is quoted."""
    return [
        f"{' ' * indent}- {word if _PLAIN.match(word) and ': ' not in word else json.dumps(word)}" for word in words
    ]
