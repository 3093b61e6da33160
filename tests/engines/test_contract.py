"""Every engine's folder has the same few functions: mypy checks the types; nobody outside asks which it is."""

import ast
from pathlib import Path
from typing import get_args

import pytest

from kvcalc.engines import contract, ideal, llamacpp, sglang, trtllm, vllm
from kvcalc.engines.ideal import capacity as ideal_capacity
from kvcalc.engines.ideal import dtypes as ideal_dtypes
from kvcalc.engines.ideal import log as ideal_log
from kvcalc.engines.ideal import memory as ideal_memory
from kvcalc.engines.ideal import weights as ideal_weights
from kvcalc.engines.ideal.rules import RULES as IDEAL_RULES
from kvcalc.engines.llamacpp import capacity as llamacpp_capacity
from kvcalc.engines.llamacpp import dtypes as llamacpp_dtypes
from kvcalc.engines.llamacpp import log as llamacpp_log
from kvcalc.engines.llamacpp import memory as llamacpp_memory
from kvcalc.engines.llamacpp import weights as llamacpp_weights
from kvcalc.engines.llamacpp.rules import RULES as LLAMACPP_RULES
from kvcalc.engines.sglang import capacity as sglang_capacity
from kvcalc.engines.sglang import dtypes as sglang_dtypes
from kvcalc.engines.sglang import log as sglang_log
from kvcalc.engines.sglang import memory as sglang_memory
from kvcalc.engines.sglang import weights as sglang_weights
from kvcalc.engines.sglang.rules import RULES as SGLANG_RULES
from kvcalc.engines.trtllm import capacity as trtllm_capacity
from kvcalc.engines.trtllm import dtypes as trtllm_dtypes
from kvcalc.engines.trtllm import log as trtllm_log
from kvcalc.engines.trtllm import memory as trtllm_memory
from kvcalc.engines.trtllm import weights as trtllm_weights
from kvcalc.engines.trtllm.rules import RULES as TRTLLM_RULES
from kvcalc.engines.vllm import capacity as vllm_capacity
from kvcalc.engines.vllm import dtypes as vllm_dtypes
from kvcalc.engines.vllm import log as vllm_log
from kvcalc.engines.vllm import memory as vllm_memory
from kvcalc.engines.vllm import weights as vllm_weights
from kvcalc.engines.vllm.rules import RULES as VLLM_RULES
from kvcalc.specs.deployment import Engine

RULES: tuple[contract.Rules, ...] = (IDEAL_RULES, LLAMACPP_RULES, SGLANG_RULES, TRTLLM_RULES, VLLM_RULES)
POOLS: tuple[contract.Pools, ...] = (
    *(ideal_capacity, llamacpp_capacity, sglang_capacity, trtllm_capacity, vllm_capacity),
)
MEMORY: tuple[contract.Memory, ...] = (ideal_memory, llamacpp_memory, sglang_memory, trtllm_memory, vllm_memory)
DTYPES: tuple[contract.Dtypes, ...] = (ideal_dtypes, llamacpp_dtypes, sglang_dtypes, trtllm_dtypes, vllm_dtypes)
WEIGHTS: tuple[contract.Weights, ...] = (
    *(ideal_weights, llamacpp_weights, sglang_weights, trtllm_weights, vllm_weights),
)
LOGS: tuple[contract.Log, ...] = (ideal_log, llamacpp_log, sglang_log, trtllm_log, vllm_log)

NAMES = get_args(Engine)
PACKAGE = Path(contract.__file__).parents[1]
MOST_FILES = 12  # outside engines/: as a default, a word of a command line, or a name to print


def test_every_engine_is_checked_here() -> None:
    folders = {package.__name__.split(".")[-1] for package in (ideal, llamacpp, sglang, trtllm, vllm)}
    assert folders == set(NAMES)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.TITLE)
def test_rules_say_only_what_differs(rules: contract.Rules) -> None:
    """A constant that nobody reads is a defect, and so is one that says again what holds anyway."""
    known = vars(contract.Rules)
    for name, value in vars(type(rules)).items():
        if name.isupper() and name != "TITLE":
            assert name in known, f"{rules.TITLE}: {name} is no rule"
            assert value != known[name], f"{rules.TITLE}: {name} is so anyway"


@pytest.mark.parametrize("name", [name for name in vars(contract.Rules) if name.isupper()])
def test_every_rule_differs_somewhere(name: str) -> None:
    assert len({str(getattr(rules, name)) for rules in RULES}) > 1


def test_few_files_outside_name_an_engine() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        words = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
        if path.relative_to(PACKAGE).parts[0] != "engines" and any(word in NAMES for word in words):
            found.append(str(path.relative_to(PACKAGE)))
    assert len(found) <= MOST_FILES, found


def test_no_answer_asks_which_engine_it_is() -> None:
    for path in sorted(PACKAGE.joinpath("answers").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            compared = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            words = {leaf.value for one in compared for leaf in ast.walk(one) if isinstance(leaf, ast.Constant)}
            assert not words & set(NAMES), f"{path.relative_to(PACKAGE)}:{node.lineno}"
