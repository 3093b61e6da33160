"""Is it right? The paged step beside a dense one: float64, one sequence at a time, keys and values in one piece.

Nothing of the executor's attention or tables is used here: pages are filled and read by plain indexing.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvcalc.executor.cache import Cache, windows_of
from kvcalc.executor.device import Device
from kvcalc.executor.linear import Linear
from kvcalc.executor.loop import Decoder, Manner
from kvcalc.executor.noise import Noise
from kvcalc.executor.numerics import Numerics, frequencies
from kvcalc.executor.pages import Sequence
from kvcalc.executor.shape import Shape
from kvcalc.executor.weights import Layer, Weights
from kvcalc.results.calibrate import Tiling
from kvcalc.results.run import Correct

if TYPE_CHECKING:
    import torch

LIMITS = {"fp32": 1e-5, "bf16": 5e-3, "fp16": 5e-3}
# Of a new key or value in the first layer: roundings of product, norm and angle (positions in fp32) come before it.
WRITTEN_LIMITS = {"fp32": 1e-3, "bf16": 3e-2, "fp16": 1e-2}
STEPS = 3
LONGEST = 4096  # histories beyond this are not made, even to fill a window
HEAD_ROWS = 8192  # of the output head, widened at a time


@dataclass
class History:
    """One sequence's keys and values in every layer, [tokens, kv_heads, head_dim]."""

    keys: list["torch.Tensor"]
    values: list["torch.Tensor"]


class Seen:
    """What every layer's attention was given and gave."""

    def __init__(self) -> None:
        self.layers: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __call__(self, layer: int, queries: "torch.Tensor", outputs: "torch.Tensor") -> None:
        self.layers.append((queries.clone(), outputs.clone()))

    def errors(self, histories: list[History], shape: Shape) -> list[float]:
        """Of every sequence in every layer, against attention over its history."""
        return [
            float(_relative(out[index].flatten(), _attention(queries[index], history, layer, shape).flatten()))
            for index, history in enumerate(histories)
            for layer, (queries, out) in enumerate(self.layers)
        ]


def verify(
    weights: Weights,
    device: Device,
    dtype: str,
    page_size: int,
    numerics: Numerics | None = None,
    tiling: Tiling | None = None,
) -> Correct:
    """Decode a few steps of ragged sequences on shuffled, shared and freshly copied pages, and compare.

    Two sequences share all pages of a third; as each writes its first token, the last page is copied.
    """
    numerics = numerics or Numerics()
    shape = weights.shape
    lengths = _lengths(shape, page_size)
    pages = (sum(lengths) + 2 * lengths[-1]) // page_size + 3 * (len(lengths) + 2)
    cache = Cache(shape, [pages] * len(windows_of(shape)), page_size, weights.embedding.dtype, device.torch, seed=1)
    sequences, histories = _begun(cache, lengths)
    decoder = Decoder(weights, cache, device, len(sequences), max(lengths) + STEPS, Manner(numerics, tiling=tiling))
    worst, written, checked, logits_error = 0.0, 0.0, 0, 0.0
    for step in range(STEPS):
        for sequence in sequences:
            cache.pages.append(sequence)
        decoder.place(sequences)
        tokens = [(977 * step + 31 * index) % shape.vocab for index in range(len(sequences))]
        decoder.feed(tokens)
        seen = Seen()
        logits = decoder.model.logits(decoder.tokens, decoder.views, seen)
        if step == STEPS - 1:
            want = _dense_logits(weights, decoder.tokens, histories, numerics)
            logits_error = max(logits_error, float(_relative(logits, want).max()))
        for token, sequence, history in zip(tokens, sequences, histories, strict=True):
            _remember(cache, sequence, history)
            written = max(written, _written_error(weights, token, history, numerics))
        errors = seen.errors(histories, shape)
        worst, checked = max(worst, *errors), checked + len(errors)
    return Correct(
        max_rel_error=worst,
        limit=LIMITS[dtype],
        passed=worst <= LIMITS[dtype] and written <= WRITTEN_LIMITS[dtype],
        checked=checked,
        written_rel_error=written,
        logits_rel_error=logits_error,
    )


def _begun(cache: Cache, lengths: list[int]) -> tuple[list[Sequence], list[History]]:
    """Sequences of these lengths, and two more that share all pages of the last."""
    noise = Noise(1)
    sequences, histories = [], []
    for length in lengths:
        sequences.append(cache.pages.start(length))
        histories.append(_fill(cache, sequences[-1], noise))
    last, known = sequences[-1], histories[-1]
    for _ in range(2):
        sequences.append(cache.pages.fork(last))
        histories.append(History(list(known.keys), list(known.values)))
    return sequences, histories


def _lengths(shape: Shape, page_size: int) -> list[int]:
    """Within a page, at its end, past a window, and one in the middle of a page that is then shared."""
    found = [1, page_size - 1, 2 * page_size]
    windows = [window for window in shape.windows if window is not None]
    if windows and max(windows) + page_size <= LONGEST:
        found.append(max(windows) + page_size // 2 + 1)
    return [*found, 3 * page_size + page_size // 2]


def _fill(cache: Cache, sequence: Sequence, noise: Noise) -> History:
    """Noise as the history of a sequence, written to its pages token by token."""
    import torch

    history = History([], [])
    size = cache.pages.page_size
    for layer, (keys, values) in enumerate(cache.layers):
        table = sequence.tables[cache.place[layer]]
        k = noise.fill(torch.empty(sequence.length, *_heads(keys), dtype=keys.dtype, device=keys.device))
        v = noise.fill(torch.empty_like(k))
        for token in range(sequence.length):
            if table[token // size] >= 0:
                keys[table[token // size], :, token % size] = k[token]
                values[table[token // size], :, token % size] = v[token]
        history.keys.append(k)
        history.values.append(v)
    return history


def _heads(keys: "torch.Tensor") -> tuple[int, int]:
    return keys.shape[1], keys.shape[3]


def _remember(cache: Cache, sequence: Sequence, history: History) -> None:
    """The key and value that the step has just written, as the step rounded them."""
    import torch

    size, token = cache.pages.page_size, sequence.length - 1
    for layer, (keys, values) in enumerate(cache.layers):
        page = sequence.tables[cache.place[layer]][token // size]
        history.keys[layer] = torch.cat((history.keys[layer], keys[page, :, token % size].unsqueeze(0)))
        history.values[layer] = torch.cat((history.values[layer], values[page, :, token % size].unsqueeze(0)))


def _written_error(weights: Weights, token: int, history: History, numerics: Numerics) -> float:
    """Of the newest key and value in the first layer, against those that follow from the token alone."""
    layer, shape = weights.layers[0], weights.shape
    x = _norm(weights.embedding[token].double(), layer.input_norm, numerics.eps)
    _, key, value = _heads_of(_product(layer.qkv, x), layer, shape, len(history.keys[0]) - 1, numerics)
    have = history.keys[0][-1], history.values[0][-1]
    return max(float(_relative(a.flatten(), b.flatten())) for a, b in zip(have, (key, value), strict=True))


def _heads_of(
    qkv: "torch.Tensor", layer: Layer, shape: Shape, position: int, numerics: Numerics
) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor]":
    """Queries, keys and values of one token, [heads, head_dim]: normalised where the model does, and turned."""
    queries, key, value = qkv.view(-1, shape.head_dim).split((shape.query_heads, shape.kv_heads, shape.kv_heads))
    if layer.qk_norms is not None:
        queries, key = (_norm(*pair, numerics.eps) for pair in zip((queries, key), layer.qk_norms, strict=True))
    return _turn(queries, position, numerics), _turn(key, position, numerics), value


def _attention(queries: "torch.Tensor", history: History, layer: int, shape: Shape) -> "torch.Tensor":
    """Softmax attention of one token's queries [heads, head_dim] over the window, in float64."""
    import torch

    window = shape.windows[layer]
    start = 0 if window is None else max(0, len(history.keys[layer]) - window)
    k, v = history.keys[layer][start:].double(), history.values[layer][start:].double()
    grouped = queries.double().view(shape.kv_heads, shape.group, shape.head_dim)
    shares = torch.softmax(torch.einsum("hgd,thd->hgt", grouped, k) * shape.head_dim**-0.5, dim=-1)
    return torch.einsum("hgt,thd->hgd", shares, v).reshape(shape.query_heads, shape.head_dim)


def _dense_logits(
    weights: Weights, tokens: "torch.Tensor", histories: list[History], numerics: Numerics
) -> "torch.Tensor":
    """The whole step in float64, each layer widened in its turn."""
    import torch

    shape = weights.shape
    x = weights.embedding[tokens].double()
    for index, layer in enumerate(weights.layers):
        qkv = _product(layer.qkv, _norm(x, layer.input_norm, numerics.eps))
        out = torch.stack(
            [
                _attend_new(row, history, index, layer, shape, numerics)
                for row, history in zip(qkv, histories, strict=True)
            ]
        )
        x = x + _product(layer.o, out)
        gate, up = _product(layer.gate_up, _norm(x, layer.post_norm, numerics.eps)).chunk(2, dim=-1)
        x = x + _product(layer.down, gate * torch.sigmoid(gate) * up)
    x = _norm(x, weights.final_norm, numerics.eps)
    head = weights.head.dense()
    return torch.cat([x @ rows.double().mT for rows in head.split(HEAD_ROWS)], dim=-1)


def _attend_new(
    qkv: "torch.Tensor", history: History, index: int, layer: Layer, shape: Shape, numerics: Numerics
) -> "torch.Tensor":
    """One sequence: its new key and value joined to what it has, then attention."""
    import torch

    queries, key, value = _heads_of(qkv, layer, shape, len(history.keys[index]), numerics)
    keys = torch.cat((history.keys[index].double(), key.unsqueeze(0)))
    values = torch.cat((history.values[index].double(), value.unsqueeze(0)))
    plain = Shape(**{**shape.__dict__, "windows": (shape.windows[index],)})
    return _attention(queries, History([keys], [values]), 0, plain).flatten()


def _turn(heads: "torch.Tensor", position: int, numerics: Numerics) -> "torch.Tensor":
    """Rotary embedding: each pair (i, i + d/2) as a complex number, turned."""
    import torch

    half = heads.shape[-1] // 2
    angles = position * torch.tensor(frequencies(numerics, 2 * half), dtype=torch.float64, device=heads.device)
    turned = torch.complex(heads[..., :half], heads[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), dim=-1)


def _norm(x: "torch.Tensor", weight: "torch.Tensor", eps: float) -> "torch.Tensor":
    return x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt() * weight.double()


def _product(linear: Linear, x: "torch.Tensor") -> "torch.Tensor":
    y = x @ linear.dense().double().mT
    return y if linear.bias is None else y + linear.bias.double()


def _relative(have: "torch.Tensor", want: "torch.Tensor") -> "torch.Tensor":
    """|have - want| / |want| over the last dimension."""
    found: torch.Tensor = (have.double() - want).norm(dim=-1) / want.norm(dim=-1)
    return found
