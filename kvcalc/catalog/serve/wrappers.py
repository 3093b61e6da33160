"""A command inside a container: a compose file, a Kubernetes manifest."""

import json
import re
from collections.abc import Sequence

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


def compose(command: Command, gpus: int) -> str:
    """A compose file with one service.

    Args:
        command: what it runs.
        gpus: of this machine that it gets.
    """
    port = command_line(command.engine).about["port"]
    return "\n".join([
        "services:",
        "  server:",
        f"    image: {image_of(command)}",
        f'    ports: ["{port}:{port}"]',
        "    ipc: host",
        f'    volumes: ["hub:{CACHE}"]',
        "    command:",
        *_items(container_words(command), 6),
        "    deploy:",
        "      resources:",
        "        reservations:",
        f"          devices: [{{driver: nvidia, count: {gpus}, capabilities: [gpu]}}]",
        "volumes:",
        "  hub: {}",
        "",
    ])  # fmt: skip


def kubernetes(command: Command, gpus: int, replicas: int = 1, name: str = "server") -> str:
    """A Deployment and its Service.

    Args:
        command: what each pod runs.
        gpus: of each pod.
        replicas: pods.
        name: of both.
    """
    port = command_line(command.engine).about["port"]
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
