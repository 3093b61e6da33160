"""From what the user typed to the cache of several models: the same for a command line and for Python."""

from collections.abc import Mapping, Sequence
from typing import Any

from kvcalc.answers.kv.answer import kv
from kvcalc.answers.question import ask
from kvcalc.results.kv import KvReport
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import IDEAL
from kvcalc.specs.load import Workload


def kv_from(models: Sequence[str], flags: Mapping[str, Any]) -> KvReport:
    """The cache of every model; `context` and `kv_cache_dtype` among the flags are lists."""
    left = dict(flags)
    contexts = tuple(checked(Workload, {"context": text}).context for text in left.pop("context", []))
    dtypes = tuple(left.pop("kv_cache_dtype", []))
    questions = [ask(model, left, engine=IDEAL) for model in models]
    return kv(
        [question.model for question in questions],
        questions[0].deployment,
        contexts=tuple(sorted({c for c in contexts if c is not None})),
        batch=questions[0].workload.batch or 1,
        cache_dtypes=tuple(dict.fromkeys(dtypes)),
        given=questions[0].given,
    )
