"""A case of speculative decoding → the round that kvcalc predicts, from the case's dimensions and its way to draft."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from times.setting import Setting, setting_of

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.drafts import as_served
from kvcalc.answers.question import Question
from kvcalc.answers.speculate.acceptance import Acceptance, from_lengths
from kvcalc.answers.speculate.drafter import Drafter, Tree, drafter, family_word, method, usual_acceptance
from kvcalc.answers.speculate.memory import deploy_draft
from kvcalc.answers.speculate.rounds import Overheads, Round, Rounds, tables
from kvcalc.counting.arrays import Quantity
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment, Engine
from kvcalc.specs.load import Workload
from kvcalc.timing.engine_profiles import profiles
from kvcalc.timing.estimate import busy_prompt_time
from kvcalc.timing.operators.smooth import smooth_maximum
from kvcalc.timing.passes import Pass

Case = Mapping[str, Any]
USUAL_CONTEXT = 512  # tokens, where a case states no lengths: chat and summaries
USUAL_GAMMA = 5  # draft tokens, where a case states none
PLAIN_INT4 = "int4g32"  # what gpt-fast writes when it is asked for int4
ASSISTED = ("sps", "assisted")  # transformers' assisted generation with a model of 68M, and its schedule
ASSISTANT = "llama-68m"
EAGER = next(one for one in tables() if one["engine"] == "eager")
FORMATS = ("int4", "int8", "fp8")
SERVED = {"any": "vllm", "gpt-fast": "vllm"}  # whose memory rules stand in; no figure of theirs is used


class EagerRounds(Rounds):
    """Rounds that a host launches kernel by kernel: each pass takes the longer of its time and the GPU's."""

    def _pass(self, deployed: Deployed, step: Step, rest_s: float) -> Quantity:
        layers = sum(group.count for group in deployed.model.groups)
        kernels = Pass(deployed.replica, step).kernels_s + deployed.replica.layer_launch_s
        return smooth_maximum(kernels, layers * EAGER["layer_s"] + rest_s)

    def plain_s(self, batch: Quantity) -> Quantity:
        return self._pass(self.target, Step(decode=batch, context=self.context), EAGER["pass_s"])

    def verify_s(self, batch: Quantity, rows_each: Quantity) -> Quantity:
        step = Step(decode=batch, context=self.context, rows_each=rows_each)
        search_s: float = EAGER["search_s"].get(self.drafter.name, 0.0)
        return self._pass(self.target, step, EAGER["pass_s"]) + search_s

    def draft_pass_s(self, batch: Quantity, gamma: int = 1) -> Quantity:
        """A model goes through its own generation loop; a layer or heads are called by the target's."""
        if self.draft is None:
            return 0.0
        step = Step(decode=batch, context=self.context, rows_each=self.drafter.rows_each(gamma))
        return self._pass(self.draft, step, EAGER["pass_s"] if self.drafter.kind == "model" else EAGER["draft_pass_s"])


@dataclass(frozen=True)
class Plan:
    """A case resolved: its rounds, and how many levels are drafted. Acceptance may still be open."""

    case: Case
    setting: Setting
    rounds: Rounds
    gamma: int
    stated: bool
    batch: int

    def round(self, acceptance: Acceptance | None = None) -> Round:
        rounds = self.rounds if acceptance is None else self.rounds.with_acceptance(acceptance)
        return rounds.at(self.batch, self.gamma)

    def speedup(self, acceptance: Acceptance | None = None) -> float:
        """Of whole requests where the case measured those, prompts included."""
        at = self.round(acceptance)
        lengths = self.setting.input_len, self.setting.output_len
        if "latency_without_s" not in self.case.get("spec", {}) or not all(lengths):
            return float(at.speedup)
        replica = self.rounds.target.replica
        prompts = Pass(replica, Step(prompts=self.batch, tokens=lengths[0]))
        prompt = busy_prompt_time(prompts.sums, replica.machine.profile)
        steps = lengths[1] - 1
        return float((prompt + steps * at.plain_s) / (prompt + steps * at.tpot_s))


def plan_of(case: Case) -> Plan:
    """The plan of a case of `spec.json`.

    Raises:
        KvcalcError: something that it states cannot be resolved.
    """
    if case.get("weights_dtype") == "int4":
        case = {**case, "weights_dtype": PLAIN_INT4}
    setting = setting_of(case)
    spec, name = case.get("spec") or {}, str(case.get("draft") or "")
    eager = "eager" in case["engine"].lower()
    target = _deployed(setting)
    found, gamma = _drafting(target, name, spec)
    draft, _ = deploy_draft(target, found)
    if draft is not None:
        draft.replica = dataclasses.replace(draft.replica, machine=target.replica.machine)
    overheads = _overheads(setting, eager, found)
    context = int(setting.context) if setting.input_len or case.get("context") else USUAL_CONTEXT
    acceptance, stated = _acceptance(target, found, spec, gamma, case)
    kind = EagerRounds if eager else Rounds
    rounds = kind(target, draft, found, acceptance, context, overheads)
    if name.lower() in ASSISTED:
        gamma = _assisted(acceptance, float(spec.get("mean_accepted") or 2))
    return Plan(case, setting, rounds, gamma, stated, batch=int(setting.batch))


def _deployed(setting: Setting) -> Deployed:
    """The target on its GPUs, with the engine's own profile."""
    deployment = Deployment(
        **vars(setting.layout),
        engine=cast(Engine, SERVED.get(setting.engine, setting.engine)),
        engine_version=setting.version if setting.engine == "vllm" else None,
        kv_cache_dtype=setting.cache_dtype,
    )
    found = Deployed(Question(model=setting.model, gpu=setting.gpu, deployment=deployment, workload=Workload()))
    found.replica = dataclasses.replace(found.replica, machine=setting.machine(setting.profile(profiles())))
    return found


def _overheads(setting: Setting, eager: bool, found: Drafter) -> Overheads:
    if found.kind == "ratio":
        return Overheads()  # the stated cost is of all that a draft takes
    return Overheads.of("eager" if eager else setting.engine, setting.version)


def _drafting(target: Deployed, name: str, spec: Mapping[str, Any]) -> tuple[Drafter, int]:
    """What drafts, and how many levels."""
    gamma = spec.get("gamma")
    if "c" in spec:
        return drafter(target.model, None, spec["c"], Tree()), int(gamma or USUAL_GAMMA)
    known = method(_bare(name))
    if known is not None:
        own = "tree" in known and bool(spec)  # what is not stated is the engine's own default: a chain
        found = drafter(target.model, known["names"][0], None, None if own else Tree())
        return found, int(gamma or (known["tree"]["depth"] if own else USUAL_GAMMA))
    model_name, form = _model(name)
    found = drafter(target.model, model_name, None, Tree())
    return as_served(found, target.model, form), int(gamma or USUAL_GAMMA)


def _bare(name: str) -> str:
    """The method inside a name: "SAMD[EAGLE2]" looks up first and then drafts as EAGLE-2 does."""
    inner = re.search(r"\[(.+)\]", name) or re.search(r"\((.+)\)", name)
    return (inner[1] if inner else name).strip().lower()


def _model(name: str) -> tuple[str, str | None]:
    """A card and a format: "llama-2-7b int4"."""
    words = name.lower().split()
    if words and words[0] in ASSISTED:
        return ASSISTANT, None
    form = next((word for word in words[1:] if word in FORMATS), None)
    if not words:
        raise KvcalcError("the case names no draft", hint="state draft")
    return words[0], form


def _acceptance(
    target: Deployed, found: Drafter, spec: Mapping[str, Any], gamma: int, case: Case
) -> tuple[Acceptance, bool]:
    """As stated; else what such a draft usually reaches, and nothing where draft and target are of two families."""
    if "alpha" in spec:
        return Acceptance(rate=spec["alpha"], of_level=True, said="stated"), True
    if "mean_accepted" in spec:
        length = float(spec["mean_accepted"])
        return from_lengths({max(gamma, int(length)): length}), True
    if found.kind == "model" and family_word(str(case["model"])) != family_word(str(case["draft"])):
        return Acceptance(rate=0.0, of_level=True, said="tokens of two families"), False
    return usual_acceptance(target.model, found)[0], False


def _assisted(acceptance: Acceptance, length: float) -> int:
    """Transformers drafts two tokens more after a full acceptance and one less else: full in a third of the rounds."""
    best = min(range(1, 21), key=lambda n: abs(from_lengths({max(n, int(length)): length}).rate ** n - 1 / 3))
    return max(best, int(length))


def sibling_acceptance(plan: Plan, siblings: Sequence[Plan]) -> Acceptance | None:
    """The rate that explains the other cases of the same target, draft and engine best; None without any."""
    if not siblings:
        return None
    rates = [i / 200 for i in range(200)]

    def misfit(rate: float) -> float:
        given = Acceptance(rate=rate, of_level=True, said="")
        return sum((one.speedup(given) / float(one.case["value"]) - 1) ** 2 for one in siblings)

    return Acceptance(rate=min(rates, key=misfit), of_level=True, said=f"from {len(siblings)} other cases")
