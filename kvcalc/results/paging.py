"""What paging costs and gives: a slower attention kernel against the sequences that a reservation would shut out."""

from kvcalc.specs.base import Frozen


class Paging(Frozen):
    """At the context of the question; the slowdown is a range, as measured. Throughput is of the whole deployment."""

    reserved_tokens: int  # that a contiguous reservation holds for each sequence: max_model_len
    contiguous_batch: int
    paged_batch: int
    kernel_slowdown_low: float  # of the attention kernel, read through a block table: 0.2 is 20 %
    kernel_slowdown_high: float
    step_slowdown_low: float  # of the whole step, at the batch of the question
    step_slowdown_high: float
    contiguous_tokens_per_s: float  # at contiguous_batch, with the faster kernel
    paged_tokens_per_s: float  # at paged_batch, with the slowest kernel of the range
    gain: float | None  # above 1: paging serves more tokens; None: not one sequence can be reserved
