"""Why an engine refused to start, in words, from the figures that its log printed."""

from kvcalc.answers.diagnose.started import Started
from kvcalc.engines.logs.facts import LogFacts, Refusal
from kvcalc.results.diagnose import Explained
from kvcalc.units import GIB, format_bytes, format_count

# Judgements.
CLOSE = 0.01  # of a size: two figures of a log that differ by less are the same
WORTH_SAYING = GIB // 2  # what others must hold of the card before it is said


def explained(started: Started) -> tuple[Explained, ...]:
    """Each refusal once, with what the log's other lines and the prediction say about it."""
    found: dict[str, Explained] = {}
    for refusal in started.facts.refusals:
        if refusal.kind not in found:
            why = _why(refusal, started)
            found[refusal.kind] = Explained(kind=refusal.kind, line=refusal.text, number=refusal.number, why=tuple(why))
    return tuple(found.values())


def _why(refusal: Refusal, started: Started) -> list[str]:
    facts = started.facts
    match refusal.kind:
        case "cache-too-small":
            return _too_small(started)
        case "length-above-cache":
            return _too_long(facts)
        case "no-memory-for-cache":
            return _nothing_left(started)
        case "card-in-use":
            return _in_use(facts)
        case "out-of-memory":
            return _out_of_memory(started)
        case "too-few-states":
            return _too_few_states(facts)
        case "memory-changed":
            return ["another process took or freed memory of this GPU while the engine measured it: start again"]
        case _:
            return []


def _too_small(started: Started) -> list[str]:
    facts = started.facts
    length = facts.settings.get("max_model_len")
    said = []
    if facts.needed_bytes and facts.pool_bytes is not None:
        what = f"one sequence of {format_count(int(length))} tokens" if isinstance(length, int) else "one sequence"
        needed, pool = format_bytes(facts.needed_bytes), format_bytes(facts.pool_bytes)
        short = format_bytes(facts.needed_bytes - facts.pool_bytes)
        said.append(f"{what} needs {needed} of cache per GPU, {pool} is available: {short} short")
    if started.longest:
        said.append(f"max_model_len up to {format_count(started.longest)} fits")
    return said


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


def _nothing_left(started: Started) -> list[str]:
    facts, budget = started.facts, started.budget
    said = []
    if facts.short_bytes:
        said.append(f"the requested memory is exceeded by {format_bytes(facts.short_bytes)} before the cache begins")
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


def _out_of_memory(started: Started) -> list[str]:
    facts, budget = started.facts, started.budget
    found = []
    if facts.tried_bytes is not None:
        said = f"an allocation of {format_bytes(facts.tried_bytes)} failed"
        if facts.free_at_failure_bytes is not None:
            said += f" with {format_bytes(facts.free_at_failure_bytes)} free"
        found.append(said)
    found += [*_request_table(started), *_who_holds(facts)]
    weights, total = (budget.weights, budget.total) if budget is not None else (started.weights, facts.total_bytes)
    if weights is not None and total is not None and weights > total and started.same_file:
        too_much = f"weights take {format_bytes(weights)} per GPU, more than the card's {format_bytes(total)}"
        found.append(f"{too_much}: no length and no batch helps")
    return found


def _request_table(started: Started) -> list[str]:
    """SGLang's table from requests to tokens, where it is what failed."""
    specs, tried = started.specs, started.facts.tried_bytes
    length = specs.deployment.max_model_len or (specs.model.max_context if specs.model else None)
    table = started.rules.request_table(specs.deployment, length)
    if not (tried and length and table) or abs(tried / table - 1) > CLOSE:
        return []
    rows, tokens = format_count(table // 4 // length), format_count(length)
    return [f"it is the table from requests to tokens: {rows} requests × {tokens} tokens × 4 bytes"]


def _who_holds(facts: LogFacts) -> list[str]:
    """What PyTorch's message says of the memory that was not free."""
    found = []
    total, free, own = facts.total_bytes, facts.free_at_failure_bytes, facts.in_use_bytes
    if total and free is not None and own and total - free - own > WORTH_SAYING:
        found.append(f"{format_bytes(total - free - own)} of the card is held by other processes")
    idle = facts.torch_idle_bytes or 0
    if facts.tried_bytes and idle >= max(1, facts.tried_bytes - (free or 0)):
        found.append(
            f"PyTorch holds {format_bytes(idle)} that no tensor uses: PYTORCH_ALLOC_CONF=expandable_segments:True may "
            "give it back"
        )
    return found
