"""The public API: what `__all__` promises exists, is documented, and nothing else is public."""

import subprocess
import sys

import pytest

import kvcalc


@pytest.mark.parametrize("name", kvcalc.__all__)
def test_public_names_exist_and_are_documented(name: str) -> None:
    value = getattr(kvcalc, name)
    assert name == "__version__" or value.__doc__


def test_nothing_else_is_public() -> None:
    assert set(dir(kvcalc)) == set(kvcalc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kvcalc.nothing  # noqa: B018


def test_importing_it_loads_nothing() -> None:
    script = "import sys, kvcalc; print([name for name in sys.modules if name.startswith('kvcalc.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
