"""Which draft, and how much of it is accepted: what the settings say, else what such drafts usually reach."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.drafts import as_served
from kvcalc.answers.speculate.acceptance import Acceptance, from_files, from_lengths, from_rates
from kvcalc.answers.speculate.drafter import Drafter, Tree, drafter, usual_acceptance
from kvcalc.answers.speculate.settings import SpeculateSettings
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, replace
from kvcalc.units import parse_count, parse_number


def chosen_drafter(target: Deployed, settings: SpeculateSettings) -> tuple[Drafter, tuple[Assumption, ...]]:
    """The draft as it is served beside the target.

    Raises:
        KvcalcError: a tree shaped in several ways, or a quantization of no model.
    """
    if bool(settings.tree_width) + bool(settings.tree_nodes) + settings.tree > 1:
        raise KvcalcError("the tree is shaped in several ways", hint="one of --tree, --tree-width, --tree-nodes")
    shape = None if settings.tree else Tree(widths=settings.tree_width, nodes=settings.tree_nodes)
    found = drafter(target.model, settings.draft, settings.draft_cost, shape)
    if settings.draft_quantization is not None and found.kind != "model":
        raise KvcalcError("--draft-quantization: no draft model is given", hint="name one with --draft")
    return as_served(found, target.model, settings.draft_quantization), found.assumptions


def chosen_acceptance(
    target: Deployed, found: Drafter, settings: SpeculateSettings, gamma: int | None
) -> tuple[Acceptance, tuple[Assumption, ...]]:
    """From the one thing that was given; else what such a draft usually reaches, as a listed assumption.

    Raises:
        KvcalcError: acceptance is given in several ways, or half of it.
    """
    files = settings.target_probs is not None or settings.draft_probs is not None
    if bool(settings.acceptance) + bool(settings.accepted_length) + files > 1:
        raise KvcalcError(
            "acceptance is given in several ways",
            hint="give one: --acceptance, --accepted-length, or --target-probs with --draft-probs",
        )
    of_level = found.tree.nodes is not None
    if settings.acceptance:
        given = from_rates(settings.acceptance, settings.decay)
        return replace(given, of_level=of_level), ()
    if settings.accepted_length:
        return from_lengths(_lengths(settings, gamma), _given_decay(settings)), ()
    if files:
        if settings.target_probs is None or settings.draft_probs is None:
            raise KvcalcError("acceptance needs both distributions", hint="give --target-probs and --draft-probs")
        given = from_files(settings.target_probs, settings.draft_probs)
        return replace(given, decay=settings.decay, of_level=of_level), ()
    taken, why = usual_acceptance(target.model, found)
    return taken, (why,)


def _given_decay(settings: SpeculateSettings) -> float | None:
    return settings.decay if settings.decay != 1 else None


def _lengths(settings: SpeculateSettings, gamma: int | None) -> dict[int, float]:
    found: dict[int, float] = {}
    for text in settings.accepted_length:
        at, colon, length = text.rpartition(":")
        where = parse_count(at, "--accepted-length") if colon else gamma
        if where is None or not 1 <= where <= 64:
            raise KvcalcError(
                f"--accepted-length {text[:40]}: with how many draft tokens?", hint="write GAMMA:LENGTH, such as 4:3.1"
            )
        found[where] = parse_number(length, "--accepted-length", "3.1")
    return found
