"""GGUF files of the Hub: found by their header, or by the quantization in their names."""

from kvcalc.catalog.models import load_model
from tests.catalog.gguf_bytes import decoder, gguf
from tests.catalog.hub.tiny import refused
from tests.catalog.hub_server import Hub


def test_a_gguf_by_its_header(hub: Hub) -> None:
    metadata, tensors = decoder(2)
    data = gguf(metadata, tensors) + bytes(5 * 2**20)
    hub.add("org/quants", "m-Q4_K_M.gguf", data)
    hub.add("org/quants", "mmproj-F16.gguf", b"")
    model = load_model("org/quants")
    assert model.layers == 2
    assert max(int(seen.range.split("-")[1]) for seen in hub.seen if seen.range) < len(data) // 2
    hub.add("org/quants", "m-Q8_0.gguf", data)
    assert "2 GGUF files" in refused("org/quants").message
    assert load_model("org/quants:q8_0").name == "org/quants/m-Q8_0.gguf"
    assert load_model("org/quants/m-Q8_0.gguf").layers == 2
    assert "Q2_K" in refused("org/quants:Q2_K").message
    assert "-q q2_k --engine llamacpp" in refused("org/quants:Q2_K").hint


def test_a_quantization_is_a_whole_word_of_a_files_name(hub: Hub) -> None:
    metadata, tensors = decoder(2)
    data = gguf(metadata, tensors)
    for name in ("Q4_K_M/m-Q4_K_M-00001-of-00001.gguf", "m-UD-Q4_K_M.gguf", "m.Q4_K_S.gguf", "m-i1-Q4_K_M.gguf"):
        hub.add("org/many", name, data)
    assert load_model("org/many:Q4_K_M").name == "org/many/Q4_K_M/m-Q4_K_M-00001-of-00001.gguf"
    assert load_model("org/many:UD-Q4_K_M").name == "org/many/m-UD-Q4_K_M.gguf"
    assert load_model("org/many:q4_k_s").name == "org/many/m.Q4_K_S.gguf"
    assert "no GGUF of Q4_K" in refused("org/many:Q4_K").message
