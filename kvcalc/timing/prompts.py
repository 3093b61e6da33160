"""What clients ask, and what prompts cost: alone, in chunks, carried by steps that decode, or packed into full ones.

Unit: s
Source: Agrawal et al. 2024 (Sarathi-Serve), sections 3 and 4, for chunks that ride on decode steps; engine factors in
`engines.toml`
"""

from math import ceil
from typing import NamedTuple

from kvcalc.counting.arrays import Quantity
from kvcalc.counting.work import Step
from kvcalc.timing.chunks import chunks
from kvcalc.timing.estimate import Estimate, busy_prompt_time
from kvcalc.timing.passes import Pass, pass_of
from kvcalc.timing.replica import Replica

MIXED = 0.5  # lengths of mixed requests run from half of the mean to one and a half times


class Requests(NamedTuple):
    """What clients ask: mean tokens in and out, the part of each prompt that is cached, and how many come in all."""

    input_len: float
    output_len: float
    prefix_hit: float = 0
    waves: float = 10  # requests in all, as multiples of the clients
    equal: bool = False  # all of one length, so that their prompts arrive together
    spread: float = MIXED  # of lengths that differ: that much of the mean either way, alike

    @property
    def context(self) -> float:
        """Mean cached tokens of those that decode: long answers do so for longer, with E[O²] / 2 E[O] tokens out."""
        return self.input_len + self.output_len / 2 * (1 + self.variance)

    @property
    def variance(self) -> float:
        """Of a length, over the square of its mean."""
        return 0.0 if self.equal else self.spread**2 / 3

    @property
    def computed(self) -> float:
        """Prompt tokens that are computed."""
        return self.input_len - self.prefix_hit


def alone_time(replica: Replica, asked: Requests) -> Estimate:
    """Time to first token with nobody else in the engine: the front end, and the prompt in chunks of the budget."""
    key = (asked.computed, asked.prefix_hit)
    if key not in replica.alone:  # whoever else is there: a search asks for it with each number of clients
        replica.alone[key] = _alone_time(replica, asked)
    found: Estimate = replica.alone[key]
    return found


def _alone_time(replica: Replica, asked: Requests) -> Estimate:
    front = replica.machine.profile.front_end_alone_s
    value: Quantity = front
    low: Quantity = front
    high: Quantity = front
    overlap = replica.overlap(steps_of(asked, replica.budget))
    for part in chunks(asked.computed, replica.budget, asked.prefix_hit):
        found = pass_of(replica, Step(prompts=1, tokens=part.tokens, start=part.start)).estimate
        assert found is not None
        times = overlap * part.number
        value, low, high = value + times * found.value, low + times * found.low, high + times * found.high
    return Estimate(value, low, high)


def steps_of(asked: Requests, budget: int) -> int:
    """Steps that a prompt is computed in.

    Unit: steps
    """
    return max(1, ceil(asked.computed / budget))


def carried_time(replica: Replica, asked: Requests, batch: Quantity, sharing: Quantity = 1) -> Quantity:
    """Seconds that each of `sharing` prompts adds to the decode steps that carry them.

    Decode attention and the engine's overhead are in both steps and cancel: the difference is what the rows add. A
    scheduler that runs prompts as steps of their own adds the whole of them.
    """
    apart = replica.machine.profile.prefill_first
    decode = Step(decode=0 if apart else batch, context=asked.context)
    # Attention grows with the square of a prompt: of unequal ones as if some of the mean one were cached before it.
    before = asked.computed * asked.variance / 2
    added: Quantity = 0.0
    for part in chunks(asked.computed, replica.budget, asked.prefix_hit):
        mixed = pass_of(replica, decode._replace(prompts=sharing, tokens=part.tokens, start=part.start + before))
        added = added + part.number * (mixed.time_s - (0.0 if apart else mixed.without_prompts.time_s))
    return added / sharing


def shared_by(replica: Replica, asked: Requests) -> float:
    """Prompts of a step that is full of them; one that is longer than a step is whole all the same.

    Unit: prompts
    """
    return max(1.0, replica.budget / max(asked.computed, 1))


def packed_prompts(replica: Replica, asked: Requests) -> Pass:
    """As many whole prompts as fill a step."""
    return pass_of(replica, Step(prompts=shared_by(replica, asked), tokens=asked.computed, start=asked.prefix_hit))


def busy_prompt(replica: Replica, asked: Requests) -> Quantity:
    """Seconds of work that one prompt costs an engine that always has the next; short ones share a step."""
    packed = packed_prompts(replica.busy, asked)
    whole = busy_prompt_time(packed.sums, replica.machine.profile)
    return packed.beside_copies(whole) / shared_by(replica, asked)
