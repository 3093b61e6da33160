"""The Hub that the tests of this folder ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.catalog.hub.tiny import CONFIG, TOKEN, be_patient, point_to
from tests.catalog.hub_server import Hub, serve


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub with one model, an empty cache, a token."""
    with serve(Hub()) as server:
        server.add("org/tiny", "config.json", CONFIG)
        point_to(server.url, monkeypatch)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_ASSETS_CACHE", str(tmp_path / "assets"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        be_patient(30, monkeypatch)  # a busy machine is no slow server
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server
