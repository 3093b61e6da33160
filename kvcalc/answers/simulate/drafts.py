"""Speculation in a simulation: what a step with drafts takes, and how many of them are accepted."""

from typing import NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.answers.speculate.rounds import Rounds
from kvcalc.answers.speculate.serving import serving_rounds
from kvcalc.counting.arrays import Quantity
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.simulator.drafts import Drafts
from kvcalc.timing.passes import pass_of

HIDDEN_STATES = ("layer", "mtp")  # drafters that read the target's: the last cached block is computed anew for them


class Drafting(NamedTuple):
    """A drafter beside the target, a chain of `gamma` tokens a step."""

    rounds: Rounds
    gamma: int

    def time_s(self, step: Step) -> Quantity:
        """Seconds of any step: where sequences decode, their check, the draft's passes, and the engine's round."""
        one = self.rounds
        whole = pass_of(one.target.replica, step).time_s
        if not isinstance(step.decode, int | float) or step.decode:
            here = Rounds(one.target, one.draft, one.drafter, one.acceptance, step.context, one.overheads)
            passes = one.drafter.passes(self.gamma) * here.draft_pass_s(step.decode, self.gamma)
            whole = whole + passes + one.overheads.round_s
        return whole

    @property
    def drops_a_block(self) -> bool:
        """Whether a prefix hit is a block shorter (vLLM's EAGLE and MTP)."""
        return self.rounds.drafter.kind in HIDDEN_STATES

    def drafts(self, asked: SimulateSettings) -> Drafts:
        """As the scheduler sees them."""
        positions = tuple(self.rounds.acceptance.at(place) for place in range(self.gamma))
        ahead = self.gamma if self.rounds.drafter.kind != "lookup" else 0
        return Drafts(positions, asked.accepting, ahead, asked.seed)


def drafting(deployed: Deployed) -> Drafting | None:
    """None where nothing is drafted, or nobody said how much of it is accepted.

    Raises:
        KvcalcError: an acceptance without drafts, or for fewer positions than are drafted.
    """
    gamma = deployed.deployment.num_speculative_tokens
    if deployed.deployment.acceptance and not gamma:
        raise KvcalcError("--acceptance: of how many drafted tokens?", hint="give --num-speculative-tokens")
    found = serving_rounds(deployed, 0)
    return None if found is None else Drafting(found, gamma)
