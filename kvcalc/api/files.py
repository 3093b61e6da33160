"""Names and files → the values that a question is about."""

from pathlib import Path

from kvcalc.api.arguments import named, speaks_of_arguments
from kvcalc.api.groups import Name
from kvcalc.specs.budget import Budget
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec


@speaks_of_arguments
def load_model(name: Name, *, strict: bool = False) -> ModelSpec:
    """A model by a card's name, a Hub id, a folder, a config.json, a .gguf or a TOML; sizes in elements and bytes.

    Raises:
        KvcalcError: no such model or, where `strict`, keys in its config that are not understood.

    >>> import kvcalc
    >>> kvcalc.load_model("llama-3-8b").layers
    32
    """
    from kvcalc.catalog.models import load_model as loaded

    return loaded(named(name, "name") or "", strict=strict)


@speaks_of_arguments
def load_gpu(name: Name) -> GpuSpec:
    """A GPU by a spec's name, an alias, a cloud's machine or a TOML; bytes, bytes/s and dense FLOP/s.

    Raises:
        KvcalcError: no such GPU.

    >>> import kvcalc
    >>> kvcalc.load_gpu("h100-sxm").memory_bytes
    80000000000
    """
    from kvcalc.catalog.gpus import load_gpu as loaded

    return loaded(named(name, "name") or "")


@speaks_of_arguments
def read_budget(path: Name, *, strict: bool = False) -> Budget:
    """The deployments and limits of a budget.toml, for `check`; `strict` as if each deployment said so.

    Raises:
        KvcalcError: what is wrong in the file, and where.
    """
    from kvcalc.catalog.budgets import read_budget as read

    return read(Path(path), strict=strict)
