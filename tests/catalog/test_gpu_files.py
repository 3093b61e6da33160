"""Files of users: a spec, or one error that names the field; junk never gives a traceback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.files.toml import LARGEST_TOML
from kvcalc.catalog.gpus import (
    gpu_from_toml,
    load_gpu,
)
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import field_names
from kvcalc.specs.gpu import GpuSpec

MINE = {
    "name": "mine",
    "title": "Mine",
    "vendor": "me",
    "architecture": "new",
    "memory_bytes": 10**10,
    "usable_memory_bytes": 9 * 10**9,
    "memory_bandwidth_bytes_per_s": 1e12,
    "peak_flops": {"bf16": 1e14},
}


def write(path: Path, **changes: object) -> Path:
    path.write_text(tomli_w.dumps(MINE | changes))
    return path


def test_a_file_of_the_users(tmp_path: Path) -> None:
    spec = load_gpu(str(write(tmp_path / "mine.toml")))
    assert (spec.name, spec.peak("bf16"), spec.price) == ("mine", 1e14, None)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"bandwidth": 1}, "bandwidth: unknown field"),
        ({"memory_bytes": -1}, "memory_bytes"),
        ({"memory_bytes": 10**30}, "memory_bytes"),
        ({"memory_bandwidth_bytes_per_s": float("inf")}, "memory_bandwidth_bytes_per_s"),
        ({"memory_bandwidth_bytes_per_s": float("nan")}, "memory_bandwidth_bytes_per_s"),
        ({"memory_bandwidth_bytes_per_s": 0}, "memory_bandwidth_bytes_per_s"),
        ({"peak_flops": {}}, "peak_flops: empty"),
        ({"peak_flops": {"bf17": 1e12}}, "unknown element type 'bf17'"),
        ({"peak_flops": {"bf16": "many"}}, "peak_flops.bf16"),
        ({"links": [{"name": "nvlink"}]}, "links.0.bandwidth_bytes_per_s: missing"),
        ({"name": ["a"]}, "name"),
        ({"price": {"date": "soon"}}, "price"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        load_gpu(str(write(tmp_path / "mine.toml", **changes)))
    assert said in caught.value.message
    assert "mine.toml" in caught.value.message
    assert "\n" not in caught.value.message + caught.value.hint


HOSTILE = {
    "binary": b"\xff\xfe\x00",
    "no TOML": b"name = = 1",
    "huge number": b"memory_bytes = " + b"9" * 5000,
    "deep": b"a = " + b"[" * 100_000,
    "large": b"#" * (LARGEST_TOML + 1),
    "empty": b"",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(HOSTILE[kind])
    with pytest.raises(KvcalcError):
        load_gpu(str(path))


def test_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.toml", Path("a\0b.toml")):
        with pytest.raises(KvcalcError, match="cannot read"):
            load_gpu(f"{path}/" if path == tmp_path else str(path))


def spec_or_error(load: Callable[[Any], GpuSpec], given: object) -> GpuSpec | KvcalcError:
    try:
        return load(given)
    except KvcalcError as error:
        return error


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(field=st.sampled_from(sorted(field_names(GpuSpec))), value=JUNK.filter(lambda value: value is not None))
def test_junk_in_any_field_is_a_spec_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: object
) -> None:
    path = tmp_path_factory.mktemp("spec") / "junk.toml"
    try:
        path.write_text(tomli_w.dumps(MINE | {field: value}), encoding="utf-8")
    except (TypeError, AttributeError, ValueError):
        return  # nothing that TOML can hold
    answer = spec_or_error(gpu_from_toml, path)
    assert isinstance(answer, GpuSpec) or "junk.toml" in answer.message


@given(st.text(max_size=200))
def test_junk_as_a_name_is_a_spec_or_one_error(text: str) -> None:
    answer = spec_or_error(load_gpu, text)
    assert isinstance(answer, GpuSpec) or answer.hint
