"""A model as llama.cpp would store it: converted to its tensors, each in the type that its recipe gives it."""

from collections.abc import Iterator

from kvcalc.catalog.quantization.gguf_recipe import (
    IMPORTANCE,
    Matrix,
    Recipe,
    Role,
    Shape,
    data,
    format_of,
    ggml_type,
    rules_of,
    writes,
)
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.formats import BF16, FP16, FP32, WeightFormat
from kvcalc.specs.model import Attention, LatentAttention, LayerGroup, ModelSpec, MoeMlp, Tensor

# Names of checkpoints that say what a tensor's category and split do not.
VALUES = {"v_proj", "value", "wv", "v"}
KEYS = {"k_proj", "key", "wk", "k"}
QUERIES = {"q_proj", "query", "wq", "q"}
FUSED = {"qkv_proj", "query_key_value", "c_attn", "Wqkv", "qkv", "in_proj_qkv"}
SPLIT_APART = {"W_pack", "wqkv"}  # fused in the checkpoint, q, k and v in the file
GATES = {"gate_proj", "w1", "c_fc_0"}
# What a checkpoint was trained in and ggml has too is copied, whatever the file's type.
NATIVE = "mxfp4"
COUNTED: tuple[Role, ...] = ("attn_v", "ffn_down", "ffn_gate", "ffn_up")


def mix(model: ModelSpec, made: Recipe, mtp: bool = False) -> ModelSpec:
    """The model as a GGUF of this type, with its multi-token-prediction layers where it is asked to draft by them.

    A checkpoint that is quantized already is one that was dequantized first, but for formats that ggml has itself.
    Vision and audio towers go into a file of their own (`mmproj`), which is not loaded unless it is named.
    """
    drafts = model.mtp if mtp or writes(model.family, "mtp") else ()
    groups = [replace(group, tensors=tuple(_converted(group))) for group in (*model.groups, *drafts)]
    shape = _shape(model, groups)
    outside, tied = _ends(model)
    layers = sorted((layer, index) for index, group in enumerate(groups) for layer in group.layers)
    seen, totals = dict.fromkeys(COUNTED, 0), _totals(groups, shape)
    formats: dict[int, dict[tuple[WeightFormat, ...], list[int]]] = {index: {} for index in range(len(groups))}
    for layer, index in layers:
        found = tuple(_layer_formats(groups[index], layer, made, shape, seen, totals))
        formats[index].setdefault(found, []).append(layer)
    mixed = [
        tuple(
            replace(group, layers=tuple(same), tensors=tuple(map(_stored, group.tensors, found)))
            for found, same in formats[index].items()
        )
        for index, group in enumerate(groups)
    ]
    main = len(model.groups)
    return replace(
        model,
        groups=tuple(part for parts in mixed[:main] for part in parts),
        mtp=tuple(part for parts in mixed[main:] for part in parts),
        tensors=tuple(_stored(t, _outside(t, tied, made, shape)) for t in outside),
        tied_embeddings=tied,
        towers=(),
        dtype="fp16",
        quantization=f"gguf {made.name}",
        weight_file_bytes=None,
        file_parameters=None,
        assumptions=(*model.assumptions, *_assumptions(model, made, mtp)),
    )


def _shape(model: ModelSpec, groups: list[LayerGroup]) -> Shape:
    attention = [m for group in sorted(groups, key=lambda one: one.layers) for m in group.mixers]
    plain = next((m for m in attention if isinstance(m, Attention)), None)
    latent = next((m for m in attention if isinstance(m, LatentAttention)), None)
    grouped = plain.query_heads // plain.kv_heads if plain else latent.query_heads if latent else 1
    experts = max((group.mlp.experts for group in groups if isinstance(group.mlp, MoeMlp)), default=1)
    return Shape(sum(group.count for group in groups), grouped, experts, model.family)


def _totals(groups: list[LayerGroup], shape: Shape) -> dict[Role, int]:
    """How many of each: of the values' tensors as many as there are, of the others one for each layer."""
    values = sum(group.count for group in groups if any(role_of(t) == "attn_v" for t in group.tensors))
    return {"attn_v": values, "ffn_down": shape.layers, "ffn_gate": shape.layers, "ffn_up": shape.layers}


def _layer_formats(
    group: LayerGroup, layer: int, made: Recipe, shape: Shape, seen: dict[Role, int], totals: dict[Role, int]
) -> Iterator[WeightFormat]:
    """The format of each tensor of a layer. `seen` counts tensors of the file, of which a fused one is one."""
    by_layer = shape.experts > 1 and made.name not in data()["eight_experts"]["low"]
    numbers: dict[str, int] = {}
    for tensor in group.tensors:
        role = role_of(tensor)
        name = tensor.module
        if role in seen and name not in numbers:
            numbers[name] = layer if by_layer and role != "attn_v" else seen[role]
            seen[role] += 1
        if tensor.format.name == NATIVE:
            yield format_of(NATIVE)
            continue
        matrix = Matrix(
            role=role,
            row=_row(tensor),
            number=numbers.get(name, 0),
            of=totals.get(role, 0),
            expert=tensor.category == "experts" or _folded(tensor),
        )
        yield format_of(ggml_type(made, matrix, shape))


def _row(tensor: Tensor) -> int:
    """Elements of a row; a lone number is one of one."""
    return tensor.shape[-1] if tensor.shape else 1


def _ends(model: ModelSpec) -> tuple[tuple[Tensor, ...], bool]:
    """The tensors outside the layers, and whether the embedding is the output matrix too."""
    if not (model.tied_embeddings and writes(model.family, "own_output")):
        return model.tensors, model.tied_embeddings
    table = next(t for t in model.tensors if t.category == "embedding")
    return (*model.tensors, replace(table, name="output.weight", category="head", matmul=True)), False


def _outside(tensor: Tensor, tied: bool, made: Recipe, shape: Shape) -> WeightFormat:
    """Of what is outside the layers; an embedding that is the output matrix too is stored as that."""
    roles: dict[str, Role] = {"embedding": "output" if tied else "token_embd", "head": "output"}
    role = roles.get(tensor.category, "kept" if tensor.category in ("norm", "position") else "other")
    if len(tensor.shape) < 2:
        role = "kept"
    return format_of(ggml_type(made, Matrix(role=role, row=_row(tensor)), shape))


def role_of(tensor: Tensor) -> Role:
    """What llama.cpp takes a layer's tensor for, by the name that it has in the file."""
    last = tensor.module.rpartition(".")[2]
    matrix = len(tensor.shape) == 2 and min(tensor.shape) > 1 and not tensor.buffer
    if not matrix or tensor.category in ("norm", "router", "position") or "bias" in tensor.name or last == "A_log":
        return "kept"
    if tensor.category in ("mlp", "experts", "shared_experts") and tensor.split in ("rows", "columns"):
        return "ffn_down" if tensor.split == "rows" else "ffn_gate" if last in GATES else "ffn_up"
    if last in FUSED or last in VALUES:
        return "attn_v"
    if tensor.category != "attention":
        return "other"
    if last in KEYS:
        return "attn_k"
    if last in QUERIES:
        return "attn_q"
    return "attn_output" if tensor.split == "rows" and not last.endswith("_a") else "other"


def _converted(group: LayerGroup) -> Iterator[Tensor]:
    """A layer's tensors as the converter cuts them."""
    latent = next((m for m in group.mixers if isinstance(m, LatentAttention)), None)
    plain = next((m for m in group.mixers if isinstance(m, Attention)), None)
    for tensor in group.tensors:
        last = tensor.module.rpartition(".")[2]
        if last == "kv_b_proj" and latent and len(tensor.shape) == 2:
            yield from _absorbed(tensor, latent)
        elif last == "in_proj_qkvz":
            inner = next(t.shape[-1] for t in group.tensors if t.split == "rows" and t.category == "recurrent")
            yield _part(tensor, "in_proj_qkv", tensor.shape[0] - inner)
            yield _part(tensor, "in_proj_z", inner)
        elif last in SPLIT_APART and plain and len(tensor.shape) == 2:
            yield from _apart(tensor, plain)
        else:
            yield tensor


def _part(tensor: Tensor, name: str, rows: int, row: int | None = None) -> Tensor:
    stem = tensor.module.rpartition(".")[0]
    return replace(tensor, name=f"{stem}.{name}.weight", shape=(rows, row or tensor.shape[-1]))


def _absorbed(tensor: Tensor, latent: LatentAttention) -> Iterator[Tensor]:
    """kv_b as the two matrices that latent attention absorbs: the keys' transposed, so its rows are short."""
    yield _part(tensor, "k_b_proj", latent.query_heads * latent.kv_lora_rank, latent.nope_head_dim)
    yield _part(tensor, "v_b_proj", latent.query_heads * latent.v_head_dim)


def _folded(tensor: Tensor) -> bool:
    """One matrix a head in three dimensions, as experts are stored."""
    return tensor.module.endswith(("k_b_proj", "v_b_proj"))


def _apart(tensor: Tensor, plain: Attention) -> Iterator[Tensor]:
    queries, keys, values = (
        plain.query_heads * plain.head_dim, plain.kv_heads * plain.head_dim, plain.kv_heads * plain.v_head_dim,
    )  # fmt: skip
    rows = tensor.shape[0]
    if rows in (queries, queries + keys + values):
        yield _part(tensor, "q_proj", queries)
    if rows in (keys + values, queries + keys + values):
        yield _part(replace(tensor, split="kv"), "k_proj", keys)
        yield _part(replace(tensor, split="kv"), "v_proj", values)


def _stored(tensor: Tensor, form: WeightFormat) -> Tensor:
    return tensor if tensor.format == form else replace(tensor, format=form)


def _assumptions(model: ModelSpec, made: Recipe, mtp: bool) -> Iterator[Assumption]:
    matrix = "with" if made.importance else "without"
    why = f"types by tensor as llama.cpp mixes them, {matrix} an importance matrix"
    if not made.importance and any("imatrix" in row for rules in rules_of(made) for row in rules):
        why += f" (with one: {IMPORTANCE}{made.name.lower()})"
    yield Assumption(name="quantization", value=made.name, why=why)
    formats = {t.format for group in model.groups for t in group.tensors} - {BF16, FP16, FP32}
    if model.quantization is not None and any(form.name != NATIVE for form in formats):
        said = f"the checkpoint ({model.quantization}) dequantized first, as such files are made"
        yield Assumption(name="weights", value=made.name, why=said)
    if any(form.name == NATIVE for form in formats):
        yield Assumption(name="experts", value="as stored", why="ggml has the checkpoint's own format: it is copied")
    if model.mtp and not writes(model.family, "mtp"):
        why = "converters leave multi-token-prediction layers out of most files"
        if mtp:
            why += "; the model is asked to draft by them, so it is a file that has them, as some do"
        yield Assumption(name="MTP layers", value="in the file" if mtp else "left out", why=why)
    if model.towers:
        named = ", ".join(tower.name for tower in model.towers)
        yield Assumption(
            name="towers", value="left out", why=f"{named}: in a file of its own (mmproj), not loaded here"
        )
    known = data()["tokenizer_bytes"].get(str(model.vocab))
    if known is not None:
        why = "bytes that the file has beside the tensors, of the vocabulary; they are not loaded onto the GPU"
        yield Assumption(name="tokenizer", value=known, why=why)
