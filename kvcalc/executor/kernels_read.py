"""A kernel that reads and does nothing else: what the memory gives where a library's sum has other limits."""

import triton
import triton.language as tl


@triton.jit
def read_kernel(x, sums, COUNT, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
    """sums[program] = the sum of BLOCKS blocks of x that follow one another."""
    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(BLOCKS):
        place = (program.to(tl.int64) * BLOCKS + block) * BLOCK + columns
        total += tl.load(x + place, mask=place < COUNT, other=0.0)
    tl.store(sums + program, tl.sum(total, 0))
