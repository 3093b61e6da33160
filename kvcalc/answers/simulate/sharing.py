"""What samples of one prompt, or beams, share: blocks with and without, from an allocator that has them."""

from random import Random
from typing import Any

from kvcalc.results.simulate import SharedBlocks
from kvcalc.simulator.allocator import BlockAllocator
from kvcalc.specs.base import replace

MOST_SHOWN = 512  # blocks, in all tables together


def samples_of(prompt: int, output: int, block_size: int, samples: int) -> SharedBlocks:
    """Parallel samples: each goes its own way from the first token on."""
    pool = _begun(prompt, output, block_size, samples)
    shared = pool.used
    for sequence in range(samples):
        pool.append(sequence)
    first, copies, written = pool.used, pool.copies, _written(pool)
    for _ in range(output - 1):
        for sequence in range(samples):
            pool.append(sequence)
    found = _shared(pool, "samples", prompt, output, samples, (shared, first, copies, pool.used))
    return replace(found, **written)


def beams_of(prompt: int, output: int, block_size: int, width: int, seed: int = 0) -> SharedBlocks:
    """Beam search: after every token each beam goes on from any of the present ones, drawn alike."""
    pool, random = _begun(prompt, output, block_size, width), Random(seed)
    shared = most = pool.used
    first = copies = 0
    written: dict[str, Any] = {}
    beams, fresh = list(range(width)), width
    for step in range(output):
        for sequence in beams:
            pool.append(sequence)
        if step == 0:
            first, copies, written = pool.used, pool.copies, _written(pool)
        most = max(most, pool.used)
        parents = [random.choice(beams) for _ in beams]
        children = list(range(fresh, fresh + width))
        fresh += width
        for parent, child in zip(parents, children, strict=True):
            pool.fork(parent, child)
        for sequence in beams:
            pool.end(sequence)
        beams = children
    return replace(_shared(pool, "beams", prompt, output, width, (shared, first, copies, most)), **written)


def _written(pool: BlockAllocator) -> dict[str, Any]:
    """Block tables and reference counts as they are now, where a reader could take them in."""
    tables = tuple(tuple(pool.tables[one]) for one in sorted(pool.tables))
    if sum(map(len, tables)) > MOST_SHOWN:
        return {}
    return {"tables": tables, "references": tuple(pool.refs[: max(map(max, tables)) + 1])}


def _begun(prompt: int, output: int, block_size: int, sequences: int) -> BlockAllocator:
    """The prompt once, and sequences that all begin with it."""
    most = 2 * sequences * (-(-(prompt + output) // block_size) + 1)
    pool = BlockAllocator(most, block_size)
    pool.start(0, prompt)
    for sequence in range(1, sequences):
        pool.fork(0, sequence)
    return pool


def _shared(
    pool: BlockAllocator, kind: str, prompt: int, output: int, sequences: int, found: tuple[int, int, int, int]
) -> SharedBlocks:
    shared, first, copies, most = found
    size = pool.block_size
    return SharedBlocks(
        kind=kind,
        sequences=sequences,
        prompt_tokens=prompt,
        output_tokens=output,
        block_size=size,
        blocks_unshared=sequences * -(-prompt // size),
        blocks_shared=shared,
        blocks_after_first_tokens=first,
        copies_on_write=copies,
        most_blocks=most,
        most_blocks_unshared=sequences * -(-(prompt + output) // size),
    )
