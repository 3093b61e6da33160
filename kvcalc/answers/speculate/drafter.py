"""What drafts: another model, a layer or heads on the target, its own MTP layers, a look-up, or a stated cost.

All but the last two become a ModelSpec, so that one draft pass is timed, and its memory counted, like any model's.
"""

import tomllib
from functools import cache
from math import log10
from pathlib import Path
from typing import Any, Literal

from kvcalc.answers.speculate.acceptance import Acceptance, from_lengths
from kvcalc.catalog.models import load_model
from kvcalc.counting.params import active_parameters
from kvcalc.errors import KvcalcError
from kvcalc.formulas.speculative import tree_nodes
from kvcalc.specs.base import Assumption, Frozen, replace
from kvcalc.specs.formats import PLAIN
from kvcalc.specs.model import Attention, DenseMlp, LayerGroup, ModelSpec, MoeMlp, Tensor

Kind = Literal["model", "layer", "heads", "mtp", "lookup", "ratio"]
HEAD_DIM = 128  # of a drafted layer whose target has no plain attention
SIZE_RULE = (0.87, 0.1)  # of ten pairs in Leviathan et al. 2023, table 4: 0.66, 0.69 and 0.76 at 0.7, 2.2 and 6.8 %


class Tree(Frozen):
    """What one draft looks like: `widths` candidates in each level, or `nodes` in all, or a chain."""

    widths: tuple[int, ...] = ()
    nodes: int | None = None  # of a tree that grows where it is likely; its acceptance is that of a level
    rows: int = 1  # expanded together in one draft pass

    def levels(self, gamma: int) -> tuple[int, ...]:
        """Candidates in each of `gamma` levels."""
        return self.widths[:gamma] if self.widths else (1,) * gamma

    def drafted(self, gamma: int) -> int:
        """Drafted tokens that the target checks."""
        if self.widths:
            return tree_nodes(self.widths[:gamma])
        return gamma if self.nodes is None or gamma == 0 else max(self.nodes, gamma)


class Drafter(Frozen):
    """What drafts. `model` is what one draft pass runs, `own` the part of it that takes memory beside the target."""

    name: str
    kind: Kind
    model: ModelSpec | None = None
    own: ModelSpec | None = None
    ratio: float | None = None  # of a draft pass to a plain step, where that is all that is known
    tree: Tree = Tree()
    assumptions: tuple[Assumption, ...] = ()

    def passes(self, gamma: int) -> int:
        """Draft passes of one round, one after the other; heads all run at once."""
        if self.kind == "lookup" or gamma == 0:
            return 0
        return 1 if self.kind == "heads" else gamma

    def rows_each(self, gamma: int) -> float:
        """Rows of one draft pass for one sequence, on average over the levels."""
        if self.kind == "heads":
            return 1
        return max(1.0, self.tree.drafted(gamma) / gamma) if self.tree.widths and gamma else self.tree.rows


@cache
def methods() -> tuple[dict[str, Any], ...]:
    """Every way to draft that drafters.toml knows."""
    return tuple(tomllib.loads(Path(__file__).with_name("drafters.toml").read_text(encoding="utf-8"))["drafter"])


def method(name: str) -> dict[str, Any] | None:
    """The table of a method by any of its names; `Token Recycling` and `token_recycling` are one."""
    spelled = name.strip().lower().replace(" ", "-").replace("_", "-")
    return next((one for one in methods() if spelled in one["names"]), None)


def drafter(
    target: ModelSpec, name: str | None = None, ratio: float | None = None, tree: Tree | None = None
) -> Drafter:
    """What the user means by `--draft` and `--draft-cost`. `tree` None is the tree that the method was published with.

    Raises:
        KvcalcError: both or contradicting ones are given, the target has no MTP layers, the method has no tree.
    """
    if ratio is not None:
        if name is not None and method(name) is None:
            raise KvcalcError("--draft-cost and --draft both say what a draft costs", hint="give one of the two")
        return Drafter(name=name or "given cost", kind="ratio", ratio=ratio, tree=tree or _own_tree(name))
    if name is None:
        name, why = ("mtp", "the model's own MTP layers") if target.mtp else ("ngram", "a look-up costs nothing")
        found = drafter(target, name, None, tree)
        taken = Assumption(name="draft", value=name, why=f"no --draft was given: {why}")
        return replace(found, assumptions=(taken, *found.assumptions))
    known = method(name)
    shape = tree or _own_tree(name)
    if known is None:
        model = load_model(name)
        shared = _vocabulary(target, model)
        return Drafter(name=name, kind="model", model=model, own=model, tree=shape, assumptions=shared)
    common: dict[str, Any] = {"name": known["names"][0], "kind": known["kind"], "tree": shape}
    if known["kind"] == "lookup":
        return Drafter(**common)
    if known["kind"] == "mtp":
        return Drafter(**common, **_mtp(target))
    if known["kind"] == "heads":
        return Drafter(**common, **_heads(target, len(shape.widths) or known["tree"]["depth"]))
    return Drafter(**common, **_layer(target, known))


def _own_tree(name: str | None) -> Tree:
    """The tree that a method was published with."""
    known = method(name) if name else None
    if known is None or "tree" not in known:
        raise KvcalcError(f"{name or 'the draft'} has no tree of its own", hint="shape one with --tree-width")
    return Tree(nodes=known["tree"]["nodes"], rows=known["tree"]["rows"])


def _mtp(target: ModelSpec) -> dict[str, Any]:
    if not target.mtp and any(one.name == "MTP layers" for one in target.assumptions):
        raise KvcalcError(
            f"most GGUF files of {target.name} leave its multi-token-prediction layers out",
            hint="give the .gguf that has them in place of the model and -q, or name another --draft",
        )
    if not target.mtp:
        raise KvcalcError(f"{target.name} has no multi-token-prediction layers", hint="name another --draft")
    bare: dict[str, Any] = {"mtp": (), "towers": (), "weight_file_bytes": None}
    first = replace(target.mtp[0], layers=(0,))
    own_head = any(
        tensor.category == "head" for tensor in first.tensors
    )  # in some checkpoints a copy lies in the layer
    outside = () if own_head else target.tensors
    return {
        "model": replace(target, **(bare | {"groups": (first,), "tensors": outside})),
        "own": replace(target, **(bare | {"groups": target.mtp, "tensors": ()})),
    }


def _matrix(name: str, category: Any, split: Any, outputs: int, inputs: int, dtype: str) -> Tensor:
    form = PLAIN.get(dtype, PLAIN["bf16"])
    return Tensor(name=name, shape=(outputs, inputs), category=category, split=split, matmul=True, format=form)


def _heads(target: ModelSpec, depth: int) -> dict[str, Any]:
    """Medusa's: a residual block and an output head for each level (Cai et al. 2024, section 2.1)."""
    block = _matrix("medusa.linear", "other", "whole", target.hidden, target.hidden, target.dtype)
    head = _matrix("medusa.head", "head", "vocab", target.vocab, target.hidden, target.dtype)
    heads = LayerGroup(layers=tuple(range(depth)), tensors=(block, head), prefix="medusa_head")
    own = _bare(target, (heads,), ())
    return {"model": own, "own": own}


def _layer(target: ModelSpec, known: dict[str, Any]) -> dict[str, Any]:
    """EAGLE's: a projection that joins hidden states, one decoder layer, a head (Li et al. 2024, section 3)."""
    hidden, dtype = target.hidden, target.dtype
    mixer, assumed = _plain_attention(target)
    width = mixer.head_dim
    mlp_width, assumed_too = _mlp_width(target)
    tensors = (
        _matrix("fc", "other", "whole", hidden, known["inputs"] * hidden, dtype),
        _matrix("self_attn.q_proj.weight", "attention", "columns", mixer.query_heads * width, hidden, dtype),
        _matrix("self_attn.k_proj.weight", "attention", "kv", mixer.kv_heads * width, hidden, dtype),
        _matrix("self_attn.v_proj.weight", "attention", "kv", mixer.kv_heads * mixer.v_head_dim, hidden, dtype),
        _matrix("self_attn.o_proj.weight", "attention", "rows", hidden, mixer.query_heads * mixer.v_head_dim, dtype),
        _matrix("mlp.gate_proj.weight", "mlp", "columns", mlp_width, hidden, dtype),
        _matrix("mlp.up_proj.weight", "mlp", "columns", mlp_width, hidden, dtype),
        _matrix("mlp.down_proj.weight", "mlp", "rows", hidden, mlp_width, dtype),
    )
    layer = LayerGroup(layers=(0,), mixers=(mixer,), mlp=DenseMlp(width=mlp_width), tensors=tensors)
    rows = min(known.get("head_vocab") or target.vocab, target.vocab)
    head = _matrix("draft_head", "head", "vocab", rows, hidden, dtype)
    own = (head,) if "head_vocab" in known else ()
    return {
        "model": _bare(target, (layer,), (head,)),
        "own": _bare(target, (layer,), own),
        "assumptions": (*assumed, *assumed_too),
    }


def _bare(target: ModelSpec, groups: tuple[LayerGroup, ...], tensors: tuple[Tensor, ...]) -> ModelSpec:
    return ModelSpec(
        name=f"draft of {target.name}",
        family="draft",
        hidden=target.hidden,
        vocab=target.vocab,
        max_context=target.max_context,
        dtype=target.dtype,
        groups=groups,
        tensors=tensors,
    )


def _plain_attention(target: ModelSpec) -> tuple[Attention, tuple[Assumption, ...]]:
    """The target's own attention without a window; where it has none, heads of 128 elements, keys for each."""
    for group in target.groups:
        for mixer in group.mixers:
            if isinstance(mixer, Attention):
                return replace(mixer, window=None, chunked=False, owns_cache=True, indexer=None), ()
    heads = max(1, target.hidden // HEAD_DIM)
    why = f"the target has no plain attention to copy: {heads} heads of {HEAD_DIM} elements"
    mixer = Attention(query_heads=heads, kv_heads=heads, head_dim=HEAD_DIM, v_head_dim=HEAD_DIM)
    return mixer, (Assumption(name="draft attention", value=heads, why=why),)


def _mlp_width(target: ModelSpec) -> tuple[int, tuple[Assumption, ...]]:
    """The target's dense MLP; of a mixture of experts what one token meets."""
    for group in target.groups:
        if isinstance(group.mlp, DenseMlp):
            return group.mlp.width, ()
    for group in target.groups:
        if isinstance(group.mlp, MoeMlp):
            width = group.mlp.top_k * group.mlp.expert_width + group.mlp.shared_width
            why = "the target's layers are mixtures of experts: as wide as what one token meets"
            return width, (Assumption(name="draft MLP width", value=width, why=why),)
    return 4 * target.hidden, (Assumption(name="draft MLP width", value=4 * target.hidden, why="four times the width"),)


def _vocabulary(target: ModelSpec, draft: ModelSpec) -> tuple[Assumption, ...]:
    """Draft and target must share their tokens; configs only tell their number and family."""
    same = target.vocab == draft.vocab and family_word(target.family) == family_word(draft.family)
    if same:
        return ()
    why = f"{draft.vocab:,} tokens ({draft.family}) against {target.vocab:,} ({target.family}): check that they agree"
    return (Assumption(name="shared tokenizer", value=True, why=why),)


def family_word(name: str) -> str:
    """The letters that a family's name begins with.

    >>> family_word("qwen3_moe"), family_word("llama-68m")
    ('qwen', 'llama')
    """
    end = next((i for i, character in enumerate(name) if not character.isalpha()), len(name))
    return name[:end].lower()


def usual_acceptance(target: ModelSpec, found: Drafter) -> tuple[Acceptance, Assumption]:
    """What such a draft usually reaches, for when nothing is stated."""
    known = method(found.name)
    if known is not None and found.tree.nodes is not None and "tree" in known:
        stated = known["tree"]
        taken = from_lengths({stated["depth"]: stated["accepted"]})
        said = f"{stated['accepted']} tokens per pass"
    elif known is not None:
        taken = Acceptance(rate=known["rate"], decay=known.get("decay", 1.0), said="usual")
        said = f"{known['rate']}"
    elif found.model is not None:
        start, slope = SIZE_RULE
        share = active_parameters(found.model) / active_parameters(target)
        taken = Acceptance(rate=min(0.95, max(0.05, start + slope * log10(share))), said="usual")
        why = (
            f"nothing was stated: a draft of {share:.1%} of the target, by the pairs of Leviathan et al. 2023, table 4"
        )
        return taken, Assumption(name="acceptance", value=round(taken.rate, 3), why=why)
    else:
        raise KvcalcError("no acceptance given", hint="give --acceptance, --accepted-length or files of probabilities")
    why = f"nothing was stated: {known['source']}"
    return replace(taken, said="usual"), Assumption(name="acceptance", value=said, why=why)
