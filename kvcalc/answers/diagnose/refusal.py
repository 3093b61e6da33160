"""Why an engine refused to start, in words, from the figures that its log printed."""

from kvcalc.answers.diagnose.start import Logged
from kvcalc.engines import rules
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.logs.facts import LogFacts, Refusal
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.results.diagnose import Explained
from kvcalc.units import format_bytes, format_count

CLOSE = 0.01


def explained(
    facts: LogFacts, specs: Logged, held: Capacity | None, budget: MemoryBudget | None
) -> tuple[Explained, ...]:
    """Each refusal once, with what the log's other lines and the prediction say about it."""
    found: dict[str, Explained] = {}
    for refusal in facts.refusals:
        if refusal.kind not in found:
            why = _why(refusal, facts, specs, held, budget)
            found[refusal.kind] = Explained(kind=refusal.kind, line=refusal.text, number=refusal.number, why=tuple(why))
    return tuple(found.values())


def _why(
    refusal: Refusal, facts: LogFacts, specs: Logged, held: Capacity | None, budget: MemoryBudget | None
) -> list[str]:
    match refusal.kind:
        case "cache-too-small":
            return _too_small(facts, held)
        case "length-above-cache":
            return _too_long(facts)
        case "no-memory-for-cache":
            return _nothing_left(facts, budget)
        case "card-in-use":
            return _in_use(facts)
        case "out-of-memory":
            return _out_of_memory(facts, specs, budget)
        case "too-few-states":
            return _too_few_states(facts)
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
    longest = longest_that_fits(facts, held)
    if longest:
        said.append(f"max_model_len up to {format_count(longest)} fits")
    return said


def longest_that_fits(facts: LogFacts, held: Capacity | None) -> int | None:
    """The engine's own estimate, else the calculated one."""
    length = facts.settings.get("max_model_len")
    if facts.estimated_max_len:
        return facts.estimated_max_len
    return held.estimated_max_model_len(length) if held is not None and isinstance(length, int) else None


def states_held(facts: LogFacts) -> int | None:
    """States that the cache has room for, as the refusal counts them."""
    found = next((line.value for line in facts.lines if line.fact == "state_blocks"), None)
    return found if isinstance(found, int) else None


def _too_few_states(facts: LogFacts) -> list[str]:
    held, asked = states_held(facts), facts.settings.get("max_num_seqs")
    said = "every running sequence keeps a state of its own, and the cache holds fewer of them than may run"
    if held is None or not isinstance(asked, int):
        return [said]
    return [said, f"{format_count(asked)} may run, {format_count(held)} states fit"]


def _too_long(facts: LogFacts) -> list[str]:
    length, tokens = facts.settings.get("max_model_len"), facts.tokens
    if not isinstance(length, int) or tokens is None:
        return []
    return [
        f"the cache holds {format_count(tokens)} tokens, fewer than one sequence of {format_count(length)} may need",
        f"max_model_len up to {format_count(tokens)} fits",
    ]


def _nothing_left(facts: LogFacts, budget: MemoryBudget | None) -> list[str]:
    said = []
    if facts.pool_bytes is not None and facts.pool_bytes < 0:
        said.append(f"the requested memory is exceeded by {format_bytes(-facts.pool_bytes)} before the cache begins")
    requested = facts.requested_bytes or (budget.requested if budget else None)
    weights = facts.weights_bytes or (budget.weights if budget else None)
    if weights and requested:
        of = f"{weights / requested:.0%} of the {format_bytes(requested)} that the engine may use"
        said.append(f"weights take {format_bytes(weights)}, {of}")
        if budget is not None and weights < requested:
            besides = budget.overhead.value
            short = weights + besides - requested
            missing = f": {format_bytes(short)} too much" if short > 0 else ""
            said.append(f"activations, graphs and communication are predicted at {format_bytes(besides)}{missing}")
    elif weights:
        said.append(f"weights take {format_bytes(weights)} per GPU")
    return said


def _in_use(facts: LogFacts) -> list[str]:
    if not (facts.free_bytes and facts.total_bytes and facts.requested_bytes):
        return []
    taken = facts.total_bytes - facts.free_bytes
    return [
        f"the engine asks for {format_bytes(facts.requested_bytes)}, and {format_bytes(facts.free_bytes)} is free: "
        f"{format_bytes(taken)} of this GPU is taken already"
    ]


def _out_of_memory(facts: LogFacts, specs: Logged, budget: MemoryBudget | None) -> list[str]:
    found = []
    if facts.tried_bytes is not None:
        said = f"an allocation of {format_bytes(facts.tried_bytes)} failed"
        if facts.free_at_failure_bytes is not None:
            said += f" with {format_bytes(facts.free_at_failure_bytes)} free"
        found.append(said)
        length = specs.deployment.max_model_len or (specs.model.max_context if specs.model else None)
        table = rules(specs.deployment.engine).request_table(specs.deployment, length)
        if table and length and abs(facts.tried_bytes / table - 1) <= CLOSE:
            rows = format_count(table // 4 // length)
            tokens = format_count(length)
            found.append(f"it is the table from requests to tokens: {rows} requests × {tokens} tokens × 4 bytes")
    if budget is not None and budget.weights > budget.total:
        weights, total = format_bytes(budget.weights), format_bytes(budget.total)
        found.append(f"weights take {weights} per GPU, more than the card's {total}: no length and no batch helps")
    return found
