"""What `kvcalc models` shows."""

from typing import Any

from kvcalc.render.page import Block, Facts, Page, Table, Text, assumed, sources
from kvcalc.results.data import data_of
from kvcalc.results.models import ModelReport, ModelResult, ModelRow, ModelsReport
from kvcalc.units import GIB, format_bytes, format_count, format_parameters, format_tokens, three_digits


def list_page(report: ModelsReport) -> Page:
    """Every card in a line."""
    return Page(
        title=f"{len(report.result.models)} model cards",
        blocks=(
            Table(
                columns=("name", "all", "active", "weights", "a token", "context"),
                rows=tuple(_row(model) for model in report.result.models),
            ),
            Text(
                lines=(
                    "All and active parameters, weights on disk, cache of a token in the dtype that `auto` means.",
                    "* and a state of fixed size for each sequence; ~ at first: windows fill, then it grows less.",
                    "`kvcalc models MODEL` shows one in full. A Hub id, a folder, a config.json, a .gguf or a TOML "
                    "works wherever a card's name does.",
                )
            ),
        ),
    )


def _row(model: ModelRow) -> tuple[str, ...]:
    return (
        model.name,
        format_parameters(model.parameters),
        format_parameters(model.active_parameters),
        f"{three_digits(model.weight_bytes / GIB)} GiB",
        _growth(model),
        "no limit" if model.max_context is None else format_tokens(model.max_context),
    )


def _growth(model: ModelRow) -> str:
    windows = "~" if model.kv_bytes_per_token_at_start != model.kv_bytes_per_token else ""
    state = "*" if model.fixed_bytes_per_sequence else ""
    return f"{windows}{format_bytes(model.kv_bytes_per_token_at_start, 0)}{state}"


def list_rows(report: ModelsReport) -> list[dict[str, Any]]:
    """For CSV: one line a card."""
    return [data_of(model) for model in report.result.models]


def one_page(report: ModelReport) -> Page:
    """One model: parameters, weights, cache, and what others counted."""
    model = report.result
    blocks: list[Block] = [_facts(model), _categories(model), _formats(model)]
    if model.published:
        blocks += [_published(model), Text(lines=tuple(dict.fromkeys(one.source for one in model.published)))]
    if report.sources:
        blocks.append(sources(report))
    return Page(title=model.name, blocks=tuple(blocks), notes=assumed(report))


def _published(model: ModelResult) -> Table:
    return Table(
        title="Counted by others",
        columns=("what", "published", "counted here", ""),
        left=frozenset({0, 3}),
        rows=tuple(
            (
                one.name.replace("_", " "),
                format_count(one.published),
                format_count(one.counted),
                "equal" if one.published == one.counted else f"{one.error:+.2%}",
            )
            for one in model.published
        ),
    )


def _facts(model: ModelResult) -> Facts:
    rows = [
        ("family", model.family, f"{model.layers} layers, hidden {format_count(model.hidden)}"),
        ("parameters", format_count(model.parameters), ""),
        ("active", format_count(model.active_parameters), "of the text model, per token"),
        (
            "weights",
            format_bytes(model.weight_bytes),
            f"{format_count(model.weight_bytes)} bytes, {model.weight_bytes_from}",
        ),
        ("cache per token", format_bytes(model.kv_bytes_per_token_at_start), _cache(model)),
        ("context", "no limit" if model.max_context is None else format_count(model.max_context), "tokens"),
    ]
    if model.mtp_parameters:
        rows.insert(2, ("MTP layers", format_count(model.mtp_parameters), "in the file, idle without speculation"))
    if model.fixed_bytes_per_sequence:
        rows.insert(-1, ("state", format_bytes(model.fixed_bytes_per_sequence), "per sequence"))
    return Facts(rows=tuple(rows))


def _cache(model: ModelResult) -> str:
    if model.kv_bytes_per_token == model.kv_bytes_per_token_at_start:
        return model.cache_dtype
    return f"{model.cache_dtype}; {format_bytes(model.kv_bytes_per_token)} once every window is full"


def _categories(model: ModelResult) -> Table:
    return Table(
        title="Parameters by category",
        columns=("category", "parameters", "share"),
        rows=tuple((name, format_count(count), f"{share:.2%}") for name, count, share in model.category_shares),
    )


def _formats(model: ModelResult) -> Table:
    return Table(
        title="Weights by format, scales included",
        columns=("format", "parameters", "bytes"),
        rows=tuple((one.format, format_count(one.parameters), format_bytes(one.bytes)) for one in model.formats),
    )


def one_rows(report: ModelReport) -> list[dict[str, Any]]:
    """For CSV: the figures in one line."""
    return [{name: value for name, value in data_of(report.result).items() if name not in ("published", "formats")}]
