"""Why an engine refused to start, in words, from the figures that its log printed."""

from kvcalc.engines.capacity import Capacity
from kvcalc.engines.logs_facts import LogFacts, Refusal
from kvcalc.engines.memory_sglang import request_table
from kvcalc.reports.diagnose import Explained
from kvcalc.reports.size import Advice
from kvcalc.specs.deployment import Deployment
from kvcalc.units import format_bytes, format_count

CLOSE = 0.01


def explained(facts: LogFacts, deployment: Deployment, held: Capacity | None) -> tuple[Explained, ...]:
    """Each refusal once, with what the log's other lines say about it."""
    found: dict[str, Explained] = {}
    for refusal in facts.refusals:
        if refusal.kind not in found:
            why = _why(refusal, facts, deployment, held)
            found[refusal.kind] = Explained(kind=refusal.kind, line=refusal.text, number=refusal.number, why=tuple(why))
    return tuple(found.values())


def _why(refusal: Refusal, facts: LogFacts, deployment: Deployment, held: Capacity | None) -> list[str]:
    match refusal.kind:
        case "cache-too-small":
            return _too_small(facts, held)
        case "length-above-cache":
            return _too_long(facts)
        case "no-memory-for-cache":
            return _nothing_left(facts)
        case "card-in-use":
            return _in_use(facts)
        case "out-of-memory":
            return _out_of_memory(facts, deployment)
        case "too-few-states":
            return ["every running sequence keeps a state of its own, and the cache holds fewer of them"]
        case "memory-changed":
            return ["another process took or freed memory of this GPU while the engine measured it: start again"]
        case _:
            return []


def _too_small(facts: LogFacts, held: Capacity | None) -> list[str]:
    length = facts.settings.get("max_model_len")
    said = []
    if facts.needed_bytes and facts.pool_bytes is not None:
        what = f"one sequence of {format_count(int(length))} tokens" if isinstance(length, int) else "one sequence"
        needed, pool = format_bytes(facts.needed_bytes), format_bytes(facts.pool_bytes)
        short = format_bytes(facts.needed_bytes - facts.pool_bytes)
        said.append(f"{what} needs {needed} of cache per GPU, {pool} is available: {short} short")
    longest = _longest(facts, held)
    if longest:
        said.append(f"max_model_len up to {format_count(longest)} fits")
    return said


def _longest(facts: LogFacts, held: Capacity | None) -> int | None:
    """The engine's own estimate, else the calculated one."""
    length = facts.settings.get("max_model_len")
    if facts.estimated_max_len:
        return facts.estimated_max_len
    return held.estimated_max_model_len(length) if held is not None and isinstance(length, int) else None


def _too_long(facts: LogFacts) -> list[str]:
    length, tokens = facts.settings.get("max_model_len"), facts.tokens
    if not isinstance(length, int) or tokens is None:
        return []
    return [
        f"the cache holds {format_count(tokens)} tokens, fewer than one sequence of {format_count(length)} may need",
        f"max_model_len up to {format_count(tokens)} fits",
    ]


def _nothing_left(facts: LogFacts) -> list[str]:
    said = []
    if facts.pool_bytes is not None and facts.pool_bytes < 0:
        said.append(f"the requested memory is exceeded by {format_bytes(-facts.pool_bytes)} before the cache begins")
    if facts.weights_bytes and facts.requested_bytes:
        share = facts.weights_bytes / facts.requested_bytes
        said.append(
            f"weights take {format_bytes(facts.weights_bytes)}, {share:.0%} of the "
            f"{format_bytes(facts.requested_bytes)} that the engine may use"
        )
    elif facts.weights_bytes:
        said.append(f"weights take {format_bytes(facts.weights_bytes)} per GPU")
    return said


def _in_use(facts: LogFacts) -> list[str]:
    if not (facts.free_bytes and facts.total_bytes and facts.requested_bytes):
        return []
    taken = facts.total_bytes - facts.free_bytes
    return [
        f"the engine asks for {format_bytes(facts.requested_bytes)}, and {format_bytes(facts.free_bytes)} is free: "
        f"{format_bytes(taken)} of this GPU is taken already"
    ]


def _out_of_memory(facts: LogFacts, deployment: Deployment) -> list[str]:
    if facts.tried_bytes is None:
        return []
    said = f"an allocation of {format_bytes(facts.tried_bytes)} failed"
    if facts.free_at_failure_bytes is not None:
        said += f" with {format_bytes(facts.free_at_failure_bytes)} free"
    found = [said]
    table = request_table(deployment, deployment.max_model_len)
    if deployment.engine == "sglang" and table and abs(facts.tried_bytes / table - 1) <= CLOSE:
        found.append(
            "it is the table from requests to cached tokens: 4 bytes for each token of each request that may run"
        )
    return found


def refusal_advice(facts: LogFacts, held: Capacity | None) -> tuple[Advice, ...]:
    """What the refusal itself says would start, without any prediction."""
    found = []
    kinds = {refusal.kind for refusal in facts.refusals}
    longest = facts.tokens if "length-above-cache" in kinds else _longest(facts, held)
    if kinds & {"cache-too-small", "length-above-cache"} and longest:
        found.append(
            Advice(
                change=f"--max-model-len {longest}",
                effect=f"max_model_len up to {format_count(longest)} fits",
                goal="fit",
            )
        )
    if "card-in-use" in kinds and facts.free_bytes and facts.total_bytes:
        share = int(100 * facts.free_bytes / facts.total_bytes) / 100
        found.append(
            Advice(
                change=f"--gpu-memory-utilization {share:.2f}",
                effect=f"the largest share that the {format_bytes(facts.free_bytes)} left free can give",
                goal="fit",
            )
        )
    states = next((line.value for line in facts.lines if line.fact == "state_blocks"), None)
    if "too-few-states" in kinds and isinstance(states, int):
        found.append(
            Advice(
                change=f"--max-num-seqs {states}", effect=f"the cache holds {format_count(states)} states", goal="fit"
            )
        )
    return tuple(found)
