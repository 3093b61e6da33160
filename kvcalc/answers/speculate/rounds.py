"""One speculative round: the draft's passes, the target's check, and what the engine does between them.

    speed-up = tokens of a pass · plain step / (check + draft passes + engine)

The check is a real pass: B (γ + 1) rows, the experts that they wake, the cache read once for all rows of a sequence. At
small batches it costs little more than a plain step; where rows turn it compute-bound, each rejected token costs.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.speculate.acceptance import Acceptance
from kvcalc.answers.speculate.drafter import Drafter
from kvcalc.counting.arrays import Quantity
from kvcalc.counting.work import Step
from kvcalc.engines import rules
from kvcalc.specs.base import Frozen, field_names
from kvcalc.specs.versions import parse_version, since
from kvcalc.timing.estimate import Estimate
from kvcalc.timing.passes import Pass, engine_share


def _early(row: dict[str, Any], version: str | None) -> bool:
    """Whether a row holds for this version."""
    return "before" not in row or (version is not None and not since(parse_version(version), row["before"]))


class Overheads(Frozen):
    """What an engine adds to a round; see speculation.toml."""

    draft_pass_s: float = 0.0
    round_s: float = 0.0
    draft_sequence_s: float = 0.0
    rank_pass_s: float = 0.0
    draft_logit_s: float = 0.0
    copies_rows: bool = False
    spread: str = "speedup"  # which range its speed-ups have

    @classmethod
    def of(cls, engine: str, version: str | None) -> "Overheads":
        """Of an engine and version; of an engine that has no row, what serving engines have in common."""
        named = [one for one in tables() if one["engine"] == engine and _early(one, version)]
        row = next(iter(named or [one for one in tables() if one["engine"] == "any"]))
        return cls(**{name: row[name] for name in field_names(cls) if name in row})


@cache
def speculation_constants() -> dict[str, Any]:
    """Everything speculation.toml says."""
    return tomllib.loads(Path(__file__).with_name("speculation.toml").read_text(encoding="utf-8"))


def tables() -> list[dict[str, Any]]:
    """Its engines, those of a span of versions before the rest."""
    return sorted(speculation_constants()["engine"], key=lambda one: "before" not in one)


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of one round and of the plain step that it competes with; of arrays where γ or the batch is one."""

    tokens: Quantity  # per sequence
    plain_s: Quantity
    verify_s: Quantity
    draft_s: Quantity  # all passes
    engine_s: Quantity
    spread: str = "speedup"

    @property
    def round_s(self) -> Quantity:
        return self.verify_s + self.draft_s + self.engine_s

    @property
    def speedup(self) -> Quantity:
        return self.tokens * self.plain_s / self.round_s

    @property
    def gain(self) -> Estimate:
        """The speed-up with the range that left-out measurements have; of a single point."""
        around, value = speculation_constants()["range"][self.spread], float(self.speedup)
        if self.round_s == self.plain_s:  # nothing is drafted
            return Estimate(1.0, 1.0, 1.0)
        return Estimate(value, value * around["low"], value * around["high"])

    @property
    def tpot_s(self) -> Quantity:
        return self.round_s / self.tokens


class Rounds:
    """Rounds of one target and drafter at one context."""

    def __init__(
        self, target: Deployed, draft: Deployed | None, drafter: Drafter, acceptance: Acceptance, context: Quantity,
        overheads: Overheads | None = None,
    ) -> None:  # fmt: skip
        self.target, self.draft, self.drafter = target, draft, drafter
        self.acceptance, self.context = acceptance, context
        deployment = target.deployment
        if overheads is None and rules(deployment.engine).TIMED:
            overheads = Overheads.of(deployment.engine, deployment.engine_version)
        self.overheads = overheads or Overheads()

    def with_acceptance(self, acceptance: Acceptance) -> "Rounds":
        return Rounds(self.target, self.draft, self.drafter, acceptance, self.context, self.overheads)

    @property
    def longest(self) -> int:
        """The longest draft that acceptance and tree say anything about."""
        widths = self.drafter.tree.widths
        return min(self.acceptance.longest, len(widths) or self.acceptance.longest)

    def plain_s(self, batch: Quantity) -> Quantity:
        return Pass(self.target.replica, Step(decode=batch, context=self.context)).time_s

    def verify_s(self, batch: Quantity, rows_each: Quantity) -> Quantity:
        if self.overheads.copies_rows:
            step = Step(decode=batch * rows_each, context=self.context)
        else:
            step = Step(decode=batch, context=self.context, rows_each=rows_each)
        found = Pass(self.target.replica, step)
        return found.kernels_s + engine_share(self.target.replica, batch)

    def draft_pass_s(self, batch: Quantity, gamma: int = 1) -> Quantity:
        """One pass of the draft over the rows that a level brings."""
        if self.drafter.ratio is not None:
            return self.drafter.ratio * self.plain_s(batch)
        if self.draft is None:
            return 0.0 * batch
        step = Step(decode=batch, context=self.context, rows_each=self.drafter.rows_each(gamma))
        telling = self.overheads.rank_pass_s if self.target.deployment.tensor_parallel_size > 1 else 0.0
        each = self.overheads.draft_sequence_s + self.overheads.draft_logit_s * self.target.model.vocab
        host = self.overheads.draft_pass_s + each * batch + telling
        replica = self.draft.replica
        return Pass(replica, step).kernels_s + replica.layer_launch_s + host

    def at(self, batch: Quantity, gamma: int) -> Round:
        """A round of `gamma` drafted levels."""
        tree = self.drafter.tree
        plain = self.plain_s(batch)
        if gamma == 0:
            return Round(1.0, plain, plain, 0.0, 0.0)
        return Round(
            tokens=self.acceptance.tokens_per_pass(tree.levels(gamma)),
            plain_s=plain,
            verify_s=self.verify_s(batch, tree.drafted(gamma) + 1),
            draft_s=self.drafter.passes(gamma) * self.draft_pass_s(batch, gamma),
            engine_s=self.overheads.round_s,
            spread=self.overheads.spread,
        )

    def best(self, batch: int) -> int:
        """The draft length with the greatest speed-up; 0: none pays. The shortest among equals."""
        import numpy as np

        lengths = list(range(1, self.longest + 1))
        tree, plain = self.drafter.tree, float(self.plain_s(batch))
        tokens = [self.acceptance.tokens_per_pass(tree.levels(n)) for n in lengths]
        verify = np.atleast_1d(self.verify_s(batch, np.array([tree.drafted(n) + 1.0 for n in lengths])))
        drafts = [
            self.drafter.passes(n) * float(self.draft_pass_s(batch, n)) for n in (lengths if tree.widths else [1])
        ]
        each = drafts if tree.widths else [self.drafter.passes(n) * drafts[0] for n in lengths]
        speedups = [t * plain / (v + d + self.overheads.round_s) for t, v, d in zip(tokens, verify, each, strict=True)]
        top = max(range(len(lengths)), key=lambda i: (speedups[i], -i))
        return lengths[top] if speedups[top] > 1 else 0
