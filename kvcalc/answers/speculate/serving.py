"""Serving with drafts: what rounds make of a decode step, where `--acceptance` says how many of them hold."""

from typing import NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.drafts import as_served
from kvcalc.answers.speculate.acceptance import from_rates
from kvcalc.answers.speculate.drafter import Tree, drafter
from kvcalc.answers.speculate.memory import deploy_draft
from kvcalc.answers.speculate.rounds import Rounds
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption
from kvcalc.timing.estimate import Estimate
from kvcalc.timing.passes import Pass, pass_of
from kvcalc.timing.serving import NO_DRAFTS
from kvcalc.units import format_things

MEMORY_ONLY = "drafts count in memory only: give --acceptance, and times are those with drafts"


def serving_rounds(deployed: Deployed, context: int) -> Rounds | None:
    """The rounds that the deployment decodes in; None where it has no drafts or nothing says how many are accepted.

    Raises:
        KvcalcError: more tokens are drafted than acceptance is given for.
    """
    deployment = deployed.deployment
    drafted, rates = deployment.num_speculative_tokens, deployment.acceptance
    if not drafted or not rates or deployment.draft_unread or not rules(deployment.engine).TIMED:
        return None
    found = as_served(drafter(deployed.model, deployment.draft, tree=Tree()), deployed.model)
    acceptance = from_rates(rates)
    if drafted > acceptance.longest:
        raise KvcalcError(
            f"{drafted} tokens are drafted, and --acceptance is given for {acceptance.longest}",
            hint="give one --acceptance for all positions, or one for each",
        )
    return Rounds(deployed, deploy_draft(deployed, found)[0], found, acceptance, context)


def drafts_without_times(deployed: Deployed) -> tuple[str, ...]:
    """The warning of a deployment whose drafts take memory and change no time."""
    deployment = deployed.deployment
    plain = not deployment.acceptance and rules(deployment.engine).TIMED
    return (MEMORY_ONLY,) if deployment.num_speculative_tokens and plain else ()


def gain(deployed: Deployed, batch: int, context: int) -> Estimate:
    """How many times faster than plain steps tokens come; once as fast where times are without drafts."""
    rounds = serving_rounds(deployed, context)
    return NO_DRAFTS if rounds is None else rounds.at(batch, deployed.deployment.num_speculative_tokens).gain


class TokenBound(NamedTuple):
    """The bound of a token: of the check, over the tokens that it lets through, were drafts free."""

    check_s: float
    tokens: float

    @property
    def token_s(self) -> float:
        return self.check_s / self.tokens


def token_bound(deployed: Deployed, plain: Pass) -> TokenBound:
    """Of a decode step's drafts; the step itself where times are without them."""
    step = plain.step
    rounds = serving_rounds(deployed, int(step.context))
    if rounds is None:
        return TokenBound(float(plain.bound_s), 1.0)
    gamma = deployed.deployment.num_speculative_tokens
    check = pass_of(deployed.replica, step._replace(rows_each=gamma + 1))
    return TokenBound(float(check.bound_s), float(rounds.at(step.decode, gamma).tokens))


def drafted(deployed: Deployed, batch: int, context: int) -> tuple[Assumption, ...]:
    """What times with drafts rest on."""
    rounds = serving_rounds(deployed, context)
    if rounds is None:
        return ()
    gamma = deployed.deployment.num_speculative_tokens
    at = rounds.at(batch, gamma)
    why = (
        f"{gamma} tokens of {rounds.drafter.name} at --acceptance: {float(at.tokens):.2f} tokens a pass, "
        f"{float(at.speedup):.2f} times as fast as plain steps of {format_things(batch, 'sequence')}; "
        "times are those of a token"
    )
    return (Assumption(name="speculation", value=round(float(at.speedup), 2), why=why),)
