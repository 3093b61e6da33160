"""`kvcalc models`: the cards, and what one model is made of."""

from collections.abc import Iterator

from kvcalc.answers.explain import explain, figure_of, total
from kvcalc.catalog.cards import Card, card_names, find_card
from kvcalc.catalog.models import load_card
from kvcalc.counting.cache import cache_profile, element_bytes
from kvcalc.counting.params import active_parameters, mtp_parameters, parameters_by_category, total_parameters
from kvcalc.counting.weights import counted_weight_bytes, mtp_weight_bytes, stored_bytes, weight_bytes
from kvcalc.engines import cache_dtype
from kvcalc.formulas import cache as formulas
from kvcalc.results.base import Figure
from kvcalc.results.models import FormatShare, ModelReport, ModelResult, ModelRow, ModelsReport, ModelsResult
from kvcalc.results.models import PublishedCount as Count
from kvcalc.specs.deployment import IDEAL as LESSONS
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import Attention, ModelSpec, Tensor

# Counted and published may differ by what a file holds beside its tensors' elements; more is a wrong reading.
IDEAL = Deployment(engine=LESSONS)


def list_models() -> ModelsReport:
    """Every card in one line."""
    cards = (find_card(name) for name in card_names())
    return ModelsReport(inputs={}, result=ModelsResult(models=tuple(_row(card) for card in cards if card)))


def _row(card: Card) -> ModelRow:
    model = load_card(card)
    profile = cache_profile(model, cache_dtype(model, IDEAL))
    return ModelRow(
        name=card.name,
        title=card.title,
        hub=card.hub,
        parameters=total_parameters(model),
        active_parameters=active_parameters(model),
        weight_bytes=weight_bytes(model),
        kv_bytes_per_token=profile.bytes_per_token,
        kv_bytes_per_token_at_start=profile.bytes_per_token_at_start,
        fixed_bytes_per_sequence=profile.fixed_bytes,
        max_context=model.max_context,
        quantization=model.quantization,
    )


def show_model(model: ModelSpec, deployment: Deployment = IDEAL) -> ModelReport:
    """One model: its counts, how its weights are stored, what its cache costs, and where each came from."""
    dtype = cache_dtype(model, deployment)
    profile = cache_profile(model, dtype)
    counted = counted_weight_bytes(model)
    exact = model.weight_file_bytes is not None
    origin = model.sources[-1].what if exact and model.sources else "counted from the config"
    result = ModelResult(
        name=model.name,
        family=model.family,
        layers=model.layers,
        hidden=model.hidden,
        vocab=model.vocab,
        parameters=total_parameters(model),
        mtp_parameters=mtp_parameters(model),
        active_parameters=active_parameters(model),
        by_category=parameters_by_category(model),
        weight_bytes=weight_bytes(model),
        mtp_weight_bytes=mtp_weight_bytes(model),
        weight_bytes_from=origin,
        counted_weight_bytes=counted,
        formats=_formats(model),
        dtype=model.dtype,
        quantization=model.quantization,
        cache_dtype=dtype,
        kv_bytes_per_token=profile.bytes_per_token,
        kv_bytes_per_token_at_start=profile.bytes_per_token_at_start,
        fixed_bytes_per_sequence=profile.fixed_bytes,
        max_context=model.max_context,
        published=tuple(_published(model)),
    )
    return ModelReport(
        inputs={"model": model.name, "kv_cache_dtype": dtype},
        result=result,
        figures=(*_figures(model, dtype), *_counted(model, dtype, result)),
        assumptions=model.assumptions,
        sources=model.sources,
        warnings=model.warnings,
    )


def _tensors(model: ModelSpec) -> Iterator[tuple[int, Tensor]]:
    """Every tensor of the file and how many layers have it."""
    for group in (*model.groups, *model.mtp):
        yield from ((group.count, tensor) for tensor in group.tensors)
    yield from ((1, tensor) for tensor in model.tensors)
    yield from ((1, tensor) for tower in model.towers for tensor in tower.tensors)


def _formats(model: ModelSpec) -> tuple[FormatShare, ...]:
    found: dict[str, tuple[int, int]] = {}
    for count, tensor in _tensors(model):
        parameters, size = found.get(tensor.format.name, (0, 0))
        found[tensor.format.name] = parameters + count * tensor.parameters, size + count * stored_bytes(tensor)
    shares = (FormatShare(format=name, parameters=p, bytes=b) for name, (p, b) in found.items())
    return tuple(sorted(shares, key=lambda share: -share.bytes))


def _published(model: ModelSpec) -> Iterator[Count]:
    card = find_card(model.name)
    size, idle = counted_weight_bytes(model), mtp_weight_bytes(model)
    counted = {"parameters": total_parameters(model), "weight_bytes": size, "weight_bytes_without_mtp": size - idle}
    for name, count in (card.published if card else {}).items():
        if name in counted:
            yield Count(name=name, published=count.value, counted=counted[name], source=count.source)


def _counted(model: ModelSpec, dtype: str, result: ModelResult) -> Iterator[Figure]:
    """Parameters, weights and cache as sums of their parts, and each part's share."""
    counted = "each tensor's shape, counted: docs/explanation/models.md"
    yield total("parameters", result.by_category, "parameters", counted)
    idle = result.parameters - result.active_parameters
    used = {"parameters": result.parameters, "not_used_by_a_token": -idle}
    yield total("active parameters", used, "parameters", counted)
    sizes = {share.format: share.bytes for share in result.formats}
    file = {
        "counted": result.counted_weight_bytes,
        "else_in_the_file": result.weight_bytes - result.counted_weight_bytes,
    }
    yield total("weights counted from the config", sizes, "bytes", counted)
    yield total("weights", file, "bytes", result.weight_bytes_from)
    for name, count in result.by_category.items():
        inputs = {"of_category": count, "parameters": result.parameters}
        yield figure_of(f"share of {name}", "of_category / parameters", inputs, "1", "arithmetic")
    for share in result.formats:
        inputs = {"bytes": share.bytes, "parameters": share.parameters}
        yield figure_of(f"bytes of a parameter in {share.format}", "bytes / parameters", inputs, "bytes", counted)
    per_token = {f"{group.kind}_{group.layers}": group.bytes_per_token for group in cache_profile(model, dtype).groups}
    yield total("cache of a token at first", per_token, "bytes/token", "docs/explanation/cache.md")


def _figures(model: ModelSpec, dtype: str) -> Iterator[Figure]:
    """The working, where one formula covers the whole cache: equal layers of full attention."""
    mixers = {mixer for group in model.groups for mixer in group.mixers}
    if len(mixers) != 1 or any(len(group.mixers) != 1 for group in model.groups):
        return
    mixer = next(iter(mixers))
    if not isinstance(mixer, Attention) or mixer.head_dim != mixer.v_head_dim or mixer.window or mixer.indexer:
        return
    yield explain(
        formulas.kv_bytes_per_token,
        "kv_bytes_per_token",
        layers=model.layers,
        kv_heads=mixer.kv_heads,
        head_dim=mixer.head_dim,
        bytes_per_element=element_bytes(dtype),
    )
