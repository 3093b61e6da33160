"""What `kvcalc kv` shows."""

from typing import Any

from kvcalc.render.page import Bars, Block, Page, Plot, Series, Table, assumed, narrow
from kvcalc.results.base import engine_name
from kvcalc.results.kv import KvGroup, KvModel, KvReport, KvResult
from kvcalc.units import GIB, format_bytes, format_count


def page(report: KvReport) -> Page:
    """The cache by kind of layer and by context, and the same with other caches."""
    result = report.result
    blocks: list[Block] = []
    if len(result.models) == 1:
        blocks += _one(result.models[0])
    else:
        blocks.append(_overview(result.models))
    blocks.append(_curve(result))
    if any(point.engine_bytes_per_gpu is not None for model in result.models for point in model.by_context):
        blocks.append(_set_aside(result.models, result.engine))
    if result.variants:
        blocks.append(_variants(result.models[0], result.variants))
    blocks.append(_beside_gpus(report))
    names = ", ".join(dict.fromkeys(model.name for model in result.models))
    return Page(
        title=f"KV cache of {names}",
        blocks=tuple(blocks),
        notes=assumed(report),
    )


def _one(model: KvModel) -> list[Block]:
    return [
        Table(
            title=f"By kind of layer, {model.cache_dtype} cache",
            columns=("kind", "layers", "grows\nper token", "up to", "fixed\nper sequence"),
            rows=(
                *(_group(group) for group in model.groups),
                (
                    "together",
                    "",  # a layer may hold two kinds
                    format_bytes(model.bytes_per_token_at_start),
                    "",
                    format_bytes(model.fixed_bytes_per_sequence) if model.fixed_bytes_per_sequence else "",
                ),
            ),
        )
    ]


def _group(group: KvGroup) -> tuple[str, ...]:
    limit = f"{format_count(group.window)} tokens" if group.window else "" if not group.bytes_per_token else "no limit"
    if group.read_limit_tokens:
        limit += f", reads {format_count(group.read_limit_tokens)}"
    return (
        group.kind,
        str(group.layers),
        format_bytes(group.bytes_per_token) if group.bytes_per_token else "nothing",
        limit,
        format_bytes(group.state_bytes) if group.state_bytes else "",
    )


def _overview(models: tuple[KvModel, ...]) -> Table:
    windows = _windows(models)
    return Table(
        columns=("model", "cache", *_growth_heading(windows), "fixed\nper sequence"),
        left=frozenset({0, 1}),
        rows=tuple(
            (
                model.name,
                model.cache_dtype,
                *_growth(model, windows),
                format_bytes(model.fixed_bytes_per_sequence) if model.fixed_bytes_per_sequence else "",
            )
            for model in models
        ),
    )


def _windows(models: tuple[KvModel, ...]) -> bool:
    """Whether the cache of any of them grows less once its windows are full."""
    return any(model.bytes_per_token != model.bytes_per_token_at_start for model in models)


def _growth_heading(windows: bool) -> tuple[str, ...]:
    return ("per token\nat first", "windows\nfull") if windows else ("per token",)


def _growth(model: KvModel, windows: bool) -> tuple[str, ...]:
    first = format_bytes(model.bytes_per_token_at_start)
    return (first, format_bytes(model.bytes_per_token)) if windows else (first,)


def _curve(result: KvResult) -> Table:
    models, batch = result.models, result.batch
    contexts = sorted({point.context for model in models for point in model.by_context})
    columns = ("context", *(_label(model, models) for model in models))
    held = [{point.context: result.of_batch(point) for point in model.by_context} for model in models]
    who = "one sequence" if batch == 1 else f"{format_count(batch)} sequences"
    table = Table(
        title=f"Cache of {who}",
        columns=columns,
        rows=tuple(
            (format_count(context), *(format_bytes(one[context]) if context in one else "–" for one in held))
            for context in contexts
        ),
    )
    return table if narrow(table) else _a_line_a_model(table)


def _a_line_a_model(table: Table) -> Table:
    """Of many models: contexts become columns; where there is no room, those that fewest of them reach go first."""
    contexts = [row[0] for row in table.rows]
    rows = tuple((name, *(row[i] for row in table.rows)) for i, name in enumerate(table.columns[1:], 1))
    places = range(1, len(contexts) + 1)
    rare = sorted(places, key=lambda place: -sum(row[place] == "–" for row in rows))
    return Table(title=table.title, columns=("model", *contexts), rows=rows, spare=tuple(rare[:-1]))


def _set_aside(models: tuple[KvModel, ...], engine: str) -> Table:
    """The engine's blocks, padding and reservations beside the mathematics."""
    table = Table(
        title=f"Set aside by {engine_name(engine)} for one sequence, on each GPU",
        columns=("context", *(_label(model, models) for model in models)),
        rows=tuple(
            (
                format_count(context),
                *(
                    next((format_bytes(p.engine_bytes_per_gpu or 0) for p in m.by_context if p.context == context), "–")
                    for m in models
                ),
            )
            for context in sorted({point.context for model in models for point in model.by_context})
        ),
    )
    return table if narrow(table) else _a_line_a_model(table)


def _label(model: KvModel, models: tuple[KvModel, ...]) -> str:
    alone = sum(other.name == model.name for other in models) == 1
    return model.name if alone else f"{model.name} {model.cache_dtype}"


def _variants(model: KvModel, variants: tuple[KvModel, ...]) -> Table:
    longest = model.by_context[-1]
    windows = _windows((model, *variants))
    return Table(
        title="The same model with another cache",
        columns=(
            "cache",
            *_growth_heading(windows),
            f"one sequence\nof {format_count(longest.context)}",
            "against\nas it is",
        ),
        rows=tuple(
            (
                one.variant,
                *_growth(one, windows),
                format_bytes(one.by_context[-1].bytes),
                f"{one.ratio:.2f} ×",
            )
            for one in (model, *variants)
        ),
    )


def _beside_gpus(report: KvReport) -> Bars:
    """The largest cache asked about, beside the memory of common GPUs."""
    result = report.result
    totals = [(model, point) for model in result.models for point in model.by_context[-1:]]
    rows = [
        (f"{_label(model, result.models)}, {format_count(point.context)}", result.of_batch(point))
        for model, point in totals
    ]
    gpus = [(gpu.name, float(gpu.memory_bytes)) for gpu in result.gpus]
    largest = max(value for _, value in (*rows, *gpus)) or 1
    return Bars(
        title="Beside the memory of common GPUs",
        rows=tuple((label, value / largest, format_bytes(value)) for label, value in (*rows, *gpus)),
    )


def pictures(report: KvReport) -> tuple[Plot | Bars, ...]:
    """The cache over the context, what each trick saves, and the largest beside the memory of common GPUs."""
    result = report.result
    shown = result.models if len(result.models) > 1 else (*result.models, *result.variants)
    who = "one sequence" if result.batch == 1 else f"{format_count(result.batch)} sequences"
    series = tuple(
        Series(
            label=_label(one, result.models) if one in result.models else one.variant,
            x=tuple(float(point.context) for point in one.by_context),
            y=tuple(result.of_batch(point) / GIB for point in one.by_context),
            marks=tuple(format_bytes(result.of_batch(point)) for point in one.by_context),
        )
        for one in shown
    )
    over = Plot(series, "cached tokens of a sequence", "GiB", f"Cache of {who}", log_x=True, log_y=True, points="size")
    return (over, *_saved(result), _beside_gpus(report))


def _saved(result: KvResult) -> tuple[Bars, ...]:
    """The cache of one model with each of its tricks taken away, and with smaller elements."""
    if not result.variants:
        return ()
    found = (*result.models, *result.variants)
    most = max(one.ratio for one in found)
    rows = tuple(
        (one.variant, one.ratio / most, f"{format_bytes(one.by_context[-1].bytes)}, {one.ratio:.2f} ×") for one in found
    )
    longest = format_count(result.models[0].by_context[-1].context)
    return (Bars(rows, f"One sequence of {longest} tokens with another cache"),)


def rows(report: KvReport) -> list[dict[str, Any]]:
    """For CSV: one line a model, cache and context."""
    return [
        {
            "model": model.name,
            "variant": model.variant,
            "cache_dtype": model.cache_dtype,
            "bytes_per_token": model.bytes_per_token,
            "bytes_per_token_at_start": model.bytes_per_token_at_start,
            "fixed_bytes_per_sequence": model.fixed_bytes_per_sequence,
            "context": point.context,
            "bytes": point.bytes,
            "read_bytes": point.read_bytes,
            "engine_bytes_per_gpu": point.engine_bytes_per_gpu,
        }
        for model in (*report.result.models, *report.result.variants)
        for point in model.by_context
    ]
