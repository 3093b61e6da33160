"""Which tokens requests share, worked out before the run: a tree of segments that are never divided by content.

The chains of all requests form a tree; ids that the same requests have become one segment. What only one request has is
its own and in no segment. A segment counts whole engine blocks: a block belongs where its last token lies.
"""

from collections.abc import Sequence

from kvcalc.simulator.requests import Chain, Requests

Path = tuple[int, ...]  # segments of one request, from its first token on
NOWHERE: Path = ()


class _Node:
    """One id after a given prefix."""

    __slots__ = ("children", "end", "users")

    def __init__(self, end: int) -> None:
        self.children: dict[int, _Node] = {}
        self.users = 0
        self.end = end  # tokens up to and with this id


def segments_of(requests: Requests, block_size: int) -> tuple[list[Path], list[int]]:
    """For each request its shared segments, and for each segment its blocks."""
    chains = requests.chains or [None] * len(requests)
    root = _Node(0)
    for chain, prompt, output in zip(chains, requests.prompt, requests.output, strict=True):
        if chain:
            size = requests.id_tokens
            only_prompt = (len(chain) - 1) * size < prompt
            _insert(root, chain, requests, prompt if size and only_prompt else prompt + output)
    sizes: list[int] = []
    numbers: dict[int, tuple[int, ...]] = {}
    _number(root, block_size, sizes, numbers)
    known: dict[Chain, Path] = {}
    paths: list[Path] = []
    for chain in chains:
        if not chain:
            paths.append(())
            continue
        path = known.get(chain)
        if path is None:
            path = known[chain] = _path(root, chain, numbers)
        paths.append(path)
    return paths, sizes


def _insert(root: _Node, chain: Chain, requests: Requests, longest: int) -> None:
    node, size = root, requests.id_tokens
    for one in chain:
        child = node.children.get(one)
        if child is None:
            end = node.end + (size or requests.sizes[one])
            child = node.children[one] = _Node(min(end, longest))
        child.users += 1
        node = child


def _number(root: _Node, block_size: int, sizes: list[int], numbers: dict[int, tuple[int, ...]]) -> None:
    """Runs of nodes with the same users become one segment, numbered at its last node; empty ones are left out."""
    stack: list[tuple[_Node, int, Path]] = [(child, 0, ()) for child in root.children.values()]
    while stack:
        node, begin, path = stack.pop()
        if node.users < 2:
            continue
        shared = [child for child in node.children.values() if child.users > 1]
        if len(shared) == 1 and shared[0].users == node.users:
            numbers[id(node)] = path
            stack.append((shared[0], begin, path))
            continue
        blocks = node.end // block_size - begin
        if blocks > 0:
            path = (*path, len(sizes))
            sizes.append(blocks)
        numbers[id(node)] = path
        stack.extend((child, begin + max(0, blocks), path) for child in shared)


def _path(root: _Node, chain: Sequence[int], numbers: dict[int, tuple[int, ...]]) -> Path:
    node, path = root, NOWHERE
    for one in chain:
        node = node.children[one]
        if node.users < 2:
            break
        path = numbers[id(node)]
    return path
