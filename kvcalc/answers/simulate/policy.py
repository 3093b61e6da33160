"""Which of a scheduler's switches the engine, its version, or a comparison with it does not have."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.errors import KvcalcError
from kvcalc.specs.checked import flag_of
from kvcalc.specs.versions import parse_version, since

SWITCHES = ("watermark", "prefill_schedule_interval", "scheduling_policy", "long_prefill_token_threshold")
SINGLY = ("scheduling_policy", "long_prefill_token_threshold", "acceptance")  # need every step of an engine's scheduler


def check_policy(deployed: Deployed, asked: SimulateSettings) -> None:
    """Raise KvcalcError for a switch that would change nothing."""
    engine, version = deployed.engine, deployed.deployment.engine_version
    plain = SimulateSettings()
    given = [name for name in SWITCHES if getattr(asked, name) != getattr(plain, name)]
    if deployed.deployment.acceptance:
        given.append("acceptance")
    for name in given:
        if name not in engine.SWITCHES:
            raise KvcalcError(f"{engine.TITLE}'s scheduler is simulated without {flag_of(name)}", hint="leave it out")
        first = engine.SWITCHES[name]
        if first is not None and version is not None and not since(parse_version(version), first):
            raise KvcalcError(f"{flag_of(name)} came with {engine.TITLE} {first}", hint="give a newer --engine-version")
    before = "is what servers did before"
    others = {
        "--scheduler static": (asked.scheduler == "static", f"a static batch {before} continuous batching"),
        "--reservation": (asked.reservation != "none", f"a cache in one piece {before} paging"),
        "--preemption-mode swap": (asked.preemption_mode == "swap", "swap is the vLLM paper's, and V1 computes anew"),
    }
    for name in sorted(set(given) & set(SINGLY)):
        for flag, (there, why) in others.items():
            if there:
                raise KvcalcError(
                    f"{flag_of(name)} and {flag} are not simulated together: {why}, in the order of arrival and "
                    "without drafts",
                    hint=f"leave one of them out; {flag_of(name)} goes with any engine's own scheduler that has it",
                )
    if asked.urgent and asked.scheduling_policy == "fcfs":
        raise KvcalcError("--urgent changes nothing where who comes first is served first",
                          hint="give --scheduling-policy priority")  # fmt: skip
