"""The shipped JSON schemas are those of the report classes, and what is printed obeys them."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pydantic
import pytest

import kvcalc
from kvcalc.results.envelope import RESULTS, schema_of, text_of
from tests.cli.conftest import Cli, cli  # noqa: F401

SHIPPED = Path(kvcalc.__file__).parent / "schemas"
WRITES_DESCRIPTIONS = (2, 14)  # of Pydantic: the docstrings of dataclasses, too
LINES = [
    "size llama-3-8b --gpu h100-sxm --isl 2k --osl 200",
    "size smollm2-135m",
    "kv llama-3-8b",
    "step gpt-oss-120b --gpu h100-sxm -tp 2 --batch 4 --context 2k",
    "curve llama-3-8b --gpu h100-sxm --context 2k --tpot 20ms",
    "compare llama-3-8b --gpu h100-sxm -tp 1 -tp 3",
    "models",
    "models deepseek-v3",
    "gpus",
    "gpus h100-sxm",
]


@pytest.mark.parametrize("command", RESULTS)
def test_shipped_schema_is_current(command: str) -> None:
    shipped, now = (SHIPPED / f"{command}.json").read_text(encoding="utf-8"), text_of(command)
    again = "run: python -m kvcalc.results.envelope kvcalc/schemas"
    assert undescribed(json.loads(shipped)) == undescribed(json.loads(now)), again
    if tuple(map(int, pydantic.VERSION.split(".")[:2])) >= WRITES_DESCRIPTIONS:
        assert shipped == now, again


def undescribed(schema: Any) -> Any:
    """Without what older versions of Pydantic do not take from docstrings."""
    if isinstance(schema, dict):
        return {key: undescribed(one) for key, one in schema.items() if key != "description" or isinstance(one, dict)}
    return [undescribed(one) for one in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("line", LINES)
def test_answers_obey_their_schema(cli: Cli, line: str) -> None:  # noqa: F811
    schema = schema_of(line.split()[0])
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(cli(line + " --json --explain").json, schema)
