"""The Hub over real HTTP, against a server on localhost: what is found, and each way of not finding it."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from huggingface_hub import constants

from kvcalc.catalog.models import load_model
from tests.catalog.hub.tiny import CONFIG, PARAMETERS, TOKEN, be_patient, point_to, refused
from tests.catalog.hub_server import COMMIT, Handler, Hub, safetensors_file, serve, slow, trickle


def test_found_by_its_config_alone(hub: Hub) -> None:
    model = load_model("org/tiny")
    assert model.hidden == 64
    assert model.weight_file_bytes is None
    assert COMMIT in str(model.sources[0].url)


def test_exact_bytes_from_the_header_of_one_file(hub: Hub) -> None:
    size = 2 * PARAMETERS
    hub.add("org/tiny", "model.safetensors", safetensors_file({"all": ("BF16", [PARAMETERS], size)}))
    model = load_model("org/tiny")
    assert (model.weight_file_bytes, model.file_parameters) == (size, PARAMETERS)
    ranges = [seen.range for seen in hub.seen if seen.path.endswith("model.safetensors")]
    assert ranges
    assert None not in ranges, "weights are never fetched whole"


def test_a_long_header_takes_a_second_request(hub: Hub) -> None:
    tensors = {f"model.layers.{i}.a_tensor_with_a_long_name": ("BF16", [20], 40) for i in range(3500)}
    hub.add("org/tiny", "model.safetensors", safetensors_file(tensors))
    assert load_model("org/tiny").weight_file_bytes == 3500 * 40
    assert len([seen for seen in hub.seen if seen.range]) == 2


def test_a_server_without_ranges_is_read_no_further_than_needed(hub: Hub) -> None:
    hub.honours_ranges = False
    size = 2 * PARAMETERS
    hub.add("org/tiny", "model.safetensors", safetensors_file({"all": ("BF16", [PARAMETERS], size)}))
    assert load_model("org/tiny").weight_file_bytes == size


def test_shards_are_added_up_and_kept(hub: Hub) -> None:
    half = PARAMETERS // 2
    for name, count in (("a.safetensors", half), ("b.safetensors", PARAMETERS - half)):
        hub.add("org/tiny", name, safetensors_file({name: ("BF16", [count], 2 * count)}))
    weight_map = {"x": "a.safetensors", "y": "b.safetensors"}
    hub.add("org/tiny", "model.safetensors.index.json", {"metadata": {"total_size": 1}, "weight_map": weight_map})
    assert load_model("org/tiny").weight_file_bytes == 2 * PARAMETERS, "headers win over what the index states"
    hub.seen.clear()
    assert load_model("org/tiny").weight_file_bytes == 2 * PARAMETERS
    assert not [seen for seen in hub.seen if seen.range], "headers of a commit are read once"


def test_the_index_serves_where_the_shards_are_missing(hub: Hub) -> None:
    index = {"metadata": {"total_size": 2 * PARAMETERS}, "weight_map": {"x": "gone.safetensors"}}
    hub.add("org/tiny", "model.safetensors.index.json", index)
    assert load_model("org/tiny").weight_file_bytes == 2 * PARAMETERS


@pytest.mark.parametrize("size", [-5, 10**30, 1, "many", True, 1.5, 10**14])
def test_an_index_with_absurd_sizes_is_refused(hub: Hub, size: object) -> None:
    hub.add("org/tiny", "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": {}})
    error = refused("org/tiny")
    assert "model.safetensors.index.json" in error.message


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", ".hidden", "a\\b"])
def test_an_index_that_leaves_the_repository_is_refused(hub: Hub, name: str) -> None:
    hub.add("org/tiny", "model.safetensors.index.json", {"weight_map": {"x": name}})
    assert "impossible files" in refused("org/tiny").message


def test_a_revision(hub: Hub) -> None:
    hub.add("org/tiny", "config.json", CONFIG | {"num_hidden_layers": 5}, revision="v2")
    assert load_model("org/tiny@v2").layers == 5
    assert load_model("org/tiny", "v2").layers == 5
    assert load_model("org/tiny").layers == 2


def test_a_quantization_config_of_its_own(hub: Hub) -> None:
    quant: dict[str, object] = {
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    }
    hub.add("org/tiny", "hf_quant_config.json", quant)
    model = load_model("org/tiny")
    assert model.kv_cache_dtype == "fp8"
    assert model.groups[0].tensors[0].format.name == "fp8"


def test_missing_repository_revision_and_config(hub: Hub) -> None:
    assert "no model org/none" in refused("org/none").message
    assert "llama-3-8b" in refused("meta-llama/Llama-3-8b-x").hint, "a card of nearly that name"
    assert "revision 'v9'" in refused("org/tiny@v9").message
    hub.add("org/empty", "README.md", b"#")
    assert "no config.json" in refused("org/empty").message


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "GatedRepo", "gated"),
        (401, "GatedRepo", "gated"),
        (401, "RepoNotFound", "private"),
        (401, None, "401"),
        (403, None, "403"),
        (404, None, "no config.json"),
        (429, None, "rate"),
        (500, None, "500"),
        (503, None, "503"),
    ],
)
def test_refusals(hub: Hub, status: int, code: str | None, words: str) -> None:
    hub.fails["org/tiny"] = lambda handler: handler.refuse(status, code)
    start = time.monotonic()
    assert words in refused("org/tiny").message
    assert time.monotonic() - start < 60  # it hangs, were it longer


def test_a_mirror_that_says_404_and_no_more(hub: Hub) -> None:
    hub.explains = False
    assert load_model("org/tiny").weight_file_bytes is None


@pytest.mark.parametrize("failure", [slow, trickle])
def test_slow_is_given_up_on(hub: Hub, failure: object, monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(0.5, monkeypatch)
    hub.fails["org/tiny"] = failure  # type: ignore[assignment]
    start = time.monotonic()
    error = refused("org/tiny")
    assert "did not answer in time" in error.message
    assert time.monotonic() - start < 60  # it hangs, were it longer


def test_a_server_that_trickles_its_headers_is_given_up_on(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = safetensors_file({"all": ("BF16", [PARAMETERS], 2 * PARAMETERS)})
    hub.add("org/tiny", "model.safetensors", whole)
    be_patient(0.5, monkeypatch)
    original = Handler.send

    def send(self: Handler, data: bytes, body: bool, commit: str = COMMIT, cut: int | None = None) -> None:
        if not (body and self.headers["Range"]):
            return original(self, data, body, commit, cut)
        with suppress(OSError):
            for byte in b"HTTP/1.1 206 Partial Content\r\n" + b"X-Long: " + b"y" * 2000:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.05)
        self.close_connection = True
        return None

    monkeypatch.setattr(Handler, "send", send)
    start = time.monotonic()
    assert "did not answer in time" in refused("org/tiny").message
    assert time.monotonic() - start < 60  # the whole of it would take 100 seconds


def test_cut_off_in_the_middle(hub: Hub) -> None:
    size = 2 * PARAMETERS
    whole = safetensors_file({"all": ("BF16", [PARAMETERS], size)})
    hub.add("org/tiny", "model.safetensors", whole)
    original = Handler.send

    def cut(self: Handler, data: bytes, body: bool, commit: str = COMMIT, cut: int | None = None) -> None:
        original(self, data, body, commit, 20 if data == whole else None)

    Handler.send = cut  # type: ignore[method-assign]
    try:
        assert "cut off" in refused("org/tiny").message
    finally:
        Handler.send = original  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "not valid JSON"),
        (b"[1, 2]", "not an object"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"hidden_size": NaN}', "hidden_size"),
        (b'{"a": ' * 5000 + b"1" + b"}" * 5000, "nested"),
        (b'{"a": "' + b"x" * 17 * 2**20 + b'"}', "too large"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not valid JSON"),
    ],
)
def test_a_config_that_cannot_be_read(hub: Hub, data: bytes, words: str) -> None:
    hub.add("org/tiny", "config.json", data)
    assert words in refused("org/tiny").message


def test_a_damaged_header(hub: Hub) -> None:
    for data in (
        b"",
        b"\xff" * 100,
        b"\x10" + bytes(7) + b"not json at all!",
        safetensors_file({"a": ("BF16", [4], 9)}),
    ):
        hub.add("org/tiny", "model.safetensors", data)
        assert "model.safetensors" in refused("org/tiny").message


def test_a_redirect_within_the_hub_is_followed(hub: Hub) -> None:
    def moved(handler: Handler) -> None:
        handler.refuse(307, None, {"Location": handler.path.replace("org/old", "org/tiny")})

    hub.fails["org/old"] = moved
    assert load_model("org/old").hidden == 64


def test_the_token_does_not_follow_a_redirect_to_another_host(hub: Hub) -> None:
    size = 2 * PARAMETERS
    with serve(Hub()) as storage:
        storage.add("org/tiny", "model.safetensors", safetensors_file({"all": ("BF16", [PARAMETERS], size)}))
        storage.add("org/tiny", "config.json", CONFIG)

        def away(handler: Handler) -> None:
            data = storage.files.get(("org/tiny", "main", handler.path.rpartition("/")[2]))
            if data is None:
                return handler.refuse(404, "EntryNotFound")
            linked = {"X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{len(data)}"'}
            return handler.refuse(302, None, {"Location": storage.url + handler.path} | linked)

        hub.fails["org/tiny"] = away
        assert load_model("org/tiny").weight_file_bytes == size
        assert any(seen.authorization == f"Bearer {TOKEN}" for seen in hub.seen)
        assert storage.seen
        assert all(seen.authorization is None for seen in storage.seen)


def test_a_cached_model_answers_without_a_network(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    load_model("org/tiny")
    point_to("http://127.0.0.1:9", monkeypatch)  # nobody listens
    assert load_model("org/tiny").hidden == 64
    error = refused("org/other")
    assert "cannot reach" in error.message
    assert "kvcalc models" in error.hint


def test_a_cache_that_cannot_be_written_is_named(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "file" / "hub"))  # a read-only home, even for root
    error = refused("org/tiny")
    assert "cannot be kept in the Hub's cache" in error.message
    assert "HF_HOME" in error.hint


def test_offline_mode_asks_nobody(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    load_model("org/tiny")
    hub.seen.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load_model("org/tiny").hidden == 64
    assert "HF_HUB_OFFLINE" in refused("org/other").message
    assert not hub.seen


def test_cards_win_over_the_network(hub: Hub) -> None:
    assert load_model("meta-llama/Meta-Llama-3-8B").name == "llama-3-8b"
    assert not hub.seen


def test_the_environment_is_heard(hub: Hub, tmp_path: Path) -> None:
    """HF_ENDPOINT, HF_HOME and HF_TOKEN as a user sets them; nothing of the token on either stream."""
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN}
    code = "from kvcalc.catalog.models import load_model; print(load_model('org/tiny').hidden)"
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert run.stdout == "64\n", run.stderr
    assert TOKEN not in run.stdout + run.stderr
    assert (tmp_path / "home" / "hub" / "models--org--tiny").is_dir()


def test_no_code_of_a_repository_runs(hub: Hub) -> None:
    hub.add("org/tiny", "config.json", CONFIG | {"auto_map": {"AutoConfig": "evil.Config"}})
    hub.add("org/tiny", "evil.py", b"raise SystemExit('ran')")
    load_model("org/tiny")
    assert not [seen for seen in hub.seen if seen.path.endswith(".py")]
