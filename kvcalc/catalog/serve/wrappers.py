"""A command inside a container: a compose file, a Kubernetes manifest."""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.catalog.serve.emit import Command
from kvcalc.catalog.serve.table import command_line

CACHE = "/root/.cache/huggingface"
_PLAIN = re.compile(r"[A-Za-z/][\w/.@:=+-]*\Z")


def image_of(command: Command) -> str:
    """The engine's own image, of the version that the command is for."""
    about = command_line(command.engine).about
    if command.version is None:
        return f"{about['image']}:{about.get('image_newest', 'latest')}"
    return f"{about['image']}:{about['image_tag'].format(command.version.lstrip('bBvV'))}"


def container_words(command: Command) -> tuple[str, ...]:
    """What stands behind the image: the program unless the image starts it, the model and the flags."""
    about = command_line(command.engine).about
    listens = ("--host", "0.0.0.0", "--port", str(about["port"]))
    if about["image_program"]:
        return (*command.words, *listens)
    return (about["image_takes"], command.model, *command.arguments, *listens)


class Pool(NamedTuple):
    """Servers of one kind among several: prompts on these, decoding on those."""

    name: str
    command: Command
    replicas: int
    address: str | None = None  # the variable that says where others reach a server


def compose(command: Command, gpus: int) -> str:
    """A compose file with one service.

    Args:
        command: what it runs.
        gpus: of this machine that it gets.
    """
    return _file(_service(Pool("server", command, 1), f"count: {gpus}", _port(command)))


def compose_pools(pools: Sequence[Pool], gpus: int) -> str:
    """A compose file with a service a pool: one server of each, on GPUs of its own of this machine.

    Args:
        pools: what each runs.
        gpus: of each.
    """
    lines: list[str] = []
    for place, pool in enumerate(pools):
        ids = ", ".join(f'"{i}"' for i in range(place * gpus, (place + 1) * gpus))
        lines += _service(pool, f"device_ids: [{ids}]", _port(pool.command) + place)
    return _file(lines)


def _file(services: Sequence[str]) -> str:
    return "\n".join(["services:", *services, "volumes:", "  hub: {}", ""])


def _port(command: Command) -> int:
    return int(command_line(command.engine).about["port"])


def _service(pool: Pool, devices: str, outside: int) -> list[str]:
    """The lines of one service; `outside` is its port on the machine."""
    address = [f"    environment: {{{pool.address}: {pool.name}}}"] if pool.address else []
    return [
        f"  {pool.name}:",
        f"    image: {image_of(pool.command)}",
        f'    ports: ["{outside}:{_port(pool.command)}"]',
        "    ipc: host",
        f'    volumes: ["hub:{CACHE}"]',
        *address,
        "    command:",
        *_items(container_words(pool.command), 6),
        "    deploy:",
        "      resources:",
        "        reservations:",
        f"          devices: [{{driver: nvidia, {devices}, capabilities: [gpu]}}]",
    ]


def kubernetes_pools(pools: Sequence[Pool], gpus: int) -> str:
    """A Deployment and its Service a pool."""
    return "---\n".join(kubernetes(one.command, gpus, one.replicas, one.name, one.address) for one in pools)


def kubernetes(command: Command, gpus: int, replicas: int = 1, name: str = "server", address: str | None = None) -> str:
    """A Deployment and its Service.

    Args:
        command: what each pod runs.
        gpus: of each pod.
        replicas: pods.
        name: of both.
        address: the variable that says where others reach a pod.
    """
    port = _port(command)
    where = "{fieldRef: {fieldPath: status.podIP}}"
    key = "command" if command_line(command.engine).about["image_program"] else "args"
    return "\n".join([
        "apiVersion: apps/v1",
        "kind: Deployment",
        f"metadata: {{name: {name}}}",
        "spec:",
        f"  replicas: {replicas}",
        f"  selector: {{matchLabels: {{app: {name}}}}}",
        "  template:",
        f"    metadata: {{labels: {{app: {name}}}}}",
        "    spec:",
        "      containers:",
        f"        - name: {name}",
        f"          image: {image_of(command)}",
        f"          {key}:",
        *_items(container_words(command), 12),
        *([f"          env: [{{name: {address}, valueFrom: {where}}}]"] if address else []),
        f"          ports: [{{containerPort: {port}}}]",
        f"          resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}",
        "          volumeMounts: [{name: shm, mountPath: /dev/shm}]",
        "      volumes: [{name: shm, emptyDir: {medium: Memory}}]",
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
