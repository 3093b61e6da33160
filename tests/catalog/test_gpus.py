"""Names and files become specs, or one clear error."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog import gpus, spellings
from kvcalc.catalog.gpus import (
    all_gpus,
    gpu_names,
    load_gpu,
    offered_gpus,
    other_boards,
    spec_text,
)
from kvcalc.catalog.prices import price_of
from kvcalc.catalog.spellings import spelling
from kvcalc.errors import KvcalcError

# As published benchmarks, drivers and logs spell them.
SPELLINGS = {
    "a100_sxm": "a100-80g-sxm",
    "a100_sxm_40g": "a100-40g-sxm",
    "a100_pcie": "a100-80g-pcie",
    "h100_sxm": "h100-sxm",
    "h100_pcie": "h100-pcie",
    "h100_nvl": "h100-nvl",
    "h200_sxm": "h200-sxm",
    "h200_nvl": "h200-nvl",
    "gh200_96g": "gh200-96g",
    "gh200_144g": "gh200-144g",
    "h800_sxm": "h800-sxm",
    "b200_sxm": "b200-sxm",
    "gb200": "gb200",
    "b300_sxm": "b300-sxm",
    "gb300": "gb300",
    "l40s": "l40s",
    "l4": "l4",
    "a40": "a40",
    "a10": "a10",
    "rtx_pro_6000_server": "rtx-pro-6000-se",
    "rtx_pro_6000": "rtx-pro-6000-ws",
    "rtx_3060": "rtx3060",
    "rtx_3070": "rtx3070",
    "rtx_3080": "rtx3080",
    "rtx_3080ti": "rtx3080ti",
    "rtx_3090": "rtx3090",
    "rtx_4070ti": "rtx4070ti",
    "rtx_4080": "rtx4080",
    "rtx_4090": "rtx4090",
    "rtx_5080": "rtx5080",
    "rtx_5090": "rtx5090",
    "rtx_4000_ada": "rtx4000-ada",
    "rtx_5000_ada": "rtx5000-ada",
    "rtx_6000_ada": "rtx6000-ada",
    "rtx_a6000": "rtx-a6000",
    "mi250": "mi250",
    "mi250x_gcd": "mi250x-gcd",
    "mi300x": "mi300x",
    "mi325x": "mi325x",
    "max1550": "max-1550",
    "tpu_v4": "tpu-v4",
    "m1_7c": "apple-m1-7c-8g",
    "m1_max32": "apple-m1-max-32c-64g",
    "m1_ultra64": "apple-m1-ultra-64c-128g",
    "m2_ultra76": "apple-m2-ultra-76c-192g",
    "m3_max40": "apple-m3-max-40c-128g",
    "m3_ultra80": "apple-m3-ultra-80c-512g",
    "m4_pro20": "apple-m4-pro-20c-64g",
    "m4_max40": "apple-m4-max-40c-128g",
    "m5_max40": "apple-m5-max-40c-128g",
    "dgx_spark": "gb10",
    "jetson_agx_orin64": "jetson-agx-orin-64",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA A100-SXM4-80GB": "a100-80g-sxm",
    "NVIDIA A100-PCIE-40GB": "a100-40g-pcie",
    "NVIDIA A100 80GB PCIe": "a100-80g-pcie",
    "NVIDIA GeForce RTX 4090": "rtx4090",
    "NVIDIA GH200 480GB": "gh200-96g",
    "Tesla T4": "t4",
    "Tesla V100-SXM2-16GB": "v100-16g-sxm2",
    "AMD Instinct MI300X": "mi300x",
    "Intel(R) Data Center GPU Max 1550": "max-1550",
    "A100 80GB": "a100-80g-sxm",
    "A100 40GB": "a100-40g-sxm",
    "H100 80GB": "h100-sxm",
    "H100 94GB": "h100-nvl",
    "B200 192GB": "b200-sxm",
    "RTX 4090 24GB": "rtx4090",
    "GB10 128GB (unified)": "gb10",
    "RTX 3050 6GB": "rtx3050-6g",
    "V100 16GB": "v100-16g-sxm2",
    "TPU v5e": "tpu-v5e",
    # As people type them.
    "5090": "rtx5090",
    "rtx5090": "rtx5090",
    "GeForce RTX 5090": "rtx5090",
    "4070 ti super": "rtx4070ti-super",
    "4070 laptop": "rtx4070-laptop",
    "rx 7900 xtx": "rx7900xtx",
    "7900XTX": "rx7900xtx",
    "Radeon RX 9070 XT": "rx9070xt",
    "a770": "arc-a770-16g",
    "p40": "p40",
    "mi50 32gb": "mi50-32g",
    "strix halo": "ryzen-ai-max-395-128g",
    "Ryzen AI Max+ 395 64GB": "ryzen-ai-max-395-64g",
    "dgx spark": "gb10",
    "m3 max 64gb": "apple-m3-max-40c-64g",
    "M2 Ultra 60-core 192GB": "apple-m2-ultra-60c-192g",
    "m4-pro-48gb": "apple-m4-pro-20c-48g",
    "m1 max 24c 32gb": "apple-m1-max-24c-32g",
    "4090 48gb": "rtx4090-48g",
    "RTX 4090 48G": "rtx4090-48g",
    "4060 ti": "rtx4060ti-8g",
    "4060 ti 16gb": "rtx4060ti-16g",
    "rtx pro 6000 max-q": "rtx-pro-6000-maxq",
    "quadro rtx 6000": "quadro-rtx6000",
    "RTX 6000 48GB": "rtx6000-ada",
    # As drivers and benchmarks write them.
    "NVIDIA L4 (22 GB)": "l4",
    "NVIDIA A40 (44 GB)": "a40",
    "Tesla V100-SXM2-32GB (32 GB)": "v100-32g-sxm2",
    "NVIDIA GeForce RTX 4060 Laptop GPU (8 GB)": "rtx4060-laptop",
    "NVIDIA RTX 4000 SFF Ada Generation (20 GB)": "rtx4000-sff-ada",
    "AMD Radeon 8060S Graphics": "ryzen-ai-max-395-128g",
    "Apple M1 4P+4E+7GPU (16 GB)": "apple-m1-7c-16g",
    "Apple M4 Max 12P+4E+40GPU (48 GB)": "apple-m4-max-40c-48g",
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_spellings_resolve(text: str) -> None:
    assert load_gpu(text).name == SPELLINGS[text]


def test_each_name_is_its_own_and_its_file() -> None:
    assert len(gpu_names()) >= 40
    for name in gpu_names():
        assert load_gpu(name).name == name


def test_no_spelling_stands_twice() -> None:
    table = spellings.alias_table()
    assert set(table) == {"aliases", "assumed", "ambiguous", "rebuilt"}
    assert set(table["aliases"]) <= set(gpu_names())
    families = [row for kind in ("assumed", "ambiguous", "rebuilt") for row in table[kind]]
    aliases = [alias for known in table["aliases"].values() for alias in known]
    several = [spelling(name) for row in families for name in row["names"]]
    assert len(several) == len(set(several))
    one = [spelling(text) for text in (*gpu_names(), *aliases)]
    assert len(one) == len(set(one))
    for row in families:
        assert len(row["gpus"]) > 1
        assert set(row["gpus"]) <= set(gpu_names())
        for name in row["names"]:  # a family may have the name of its first board, and of no other
            assert spelling(name) not in {spelling(alias) for alias in aliases}
            assert spelling(name) not in {spelling(board) for board in row["gpus"][1:]}


def test_a_name_of_different_cards_is_refused_with_the_choices() -> None:
    with pytest.raises(KvcalcError, match="differ in memory") as caught:
        load_gpu("RTX 6000")
    assert caught.value.hint.count(" or ") >= 1


@pytest.mark.parametrize(
    "text, taken, other",
    [
        ("A100", "a100-40g-sxm", "a100-80g-sxm"),
        ("v100", "v100-16g-sxm2", "v100-32g-sxm2"),
        ("GH200", "gh200-96g", "gh200-144g"),
    ],
)
def test_a_product_of_two_sizes_takes_the_first_that_was_sold_and_names_the_other(
    text: str, taken: str, other: str
) -> None:
    (assumption,) = load_gpu(text).assumptions
    assert assumption.value == taken
    assert other in assumption.why


def test_the_bare_name_of_a_product_is_an_assumption() -> None:
    (assumption,) = load_gpu("H100").assumptions
    assert (assumption.name, assumption.value) == ("gpu", "h100-sxm")
    assert "h100-pcie" in assumption.why
    assert load_gpu("h100-sxm").assumptions == ()
    assert load_gpu("H100 94GB").assumptions == ()


def test_a_name_of_several_sizes_says_what_it_may_mean_too() -> None:
    (assumption,) = load_gpu("m4 max").assumptions
    assert assumption.value == "apple-m4-max-40c-128g"
    others = ("apple-m4-max-40c-64g", "apple-m4-max-40c-48g", "apple-m4-max-32c-36g")
    assert tuple(board.name for board in other_boards("m4 max")) == others
    assert all(name in assumption.why for name in others)
    assert load_gpu("m4 max 36gb").assumptions == ()
    # The after-market board is found by its size alone: nobody who says "4090" is told of it.
    assert load_gpu("4090").assumptions == other_boards("4090") == ()


@pytest.mark.parametrize("text", ["RTX 4090 16GB", "m3 max 70gb", "m3 max 33 cores", "strix halo 80 GB"])
def test_a_size_and_a_count_of_cores_must_be_a_boards(text: str) -> None:
    with pytest.raises(KvcalcError, match="no such") as caught:
        load_gpu(text)
    assert "the catalog has" in caught.value.hint


@given(st.sampled_from(gpu_names()), st.data())
def test_how_a_name_is_written_does_not_matter(name: str, data: st.DataObject) -> None:
    """Hyphens as spaces or underscores, capitals, the vendor in front, the memory behind: the same board."""
    gpu = load_gpu(name)
    separator = data.draw(st.sampled_from(["-", " ", "_"]))
    text = name.replace("-", separator)
    text = data.draw(st.sampled_from([text, text.upper(), f"{gpu.vendor} {text}"]))
    assert load_gpu(text).name == name


def test_what_is_offered_are_the_priced_and_the_servers_cards() -> None:
    offered = {gpu.name for gpu in offered_gpus()}
    assert offered == {g.name for g in all_gpus() if price_of(g) is not None or g.segment == "data-center"}


def test_a_spec_to_start_from_is_the_catalogs_file() -> None:
    assert spec_text("rtx 4090") == gpus.spec_path("rtx4090").read_text(encoding="utf-8")


def test_a_miss_suggests_what_was_meant() -> None:
    with pytest.raises(KvcalcError, match="unknown GPU 'h10O-sxm'") as caught:
        load_gpu("h10O-sxm")
    assert "did you mean h100-sxm" in caught.value.hint


def test_one_answer_reads_one_file_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    real = gpus.read_toml
    for module in (gpus, spellings):
        monkeypatch.setattr(module, "read_toml", lambda path, what: read.append(path) or real(path, what))
    for cached in (gpus._named, spellings.alias_table, spellings.families):
        cached.cache_clear()
    load_gpu("h100-sxm")
    assert {path.name for path in read} == {"h100-sxm.toml"}
    load_gpu("h100_sxm")
    assert {path.name for path in read} == {"h100-sxm.toml", "aliases.toml"}
    load_gpu("m3 max 64gb")
    assert len(read) <= 2 + 5  # the boards of that name, to compare their sizes


@pytest.mark.parametrize(
    "text, named",
    [
        ("8x RTX 4090", "rtx4090"),
        ("L40S x4", "l40s"),
        ("2 × H100", "h100-sxm"),
        ("24GB class", "rtx3090"),
        ("80GB", "h100-sxm"),
        ("24 GB GPU", "l4"),
        ("80GB x4", "a100-80g-sxm"),
    ],
)
def test_a_count_or_a_size_is_no_name_but_gives_a_hint(text: str, named: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        load_gpu(text)
    assert named in str(caught.value.hint)
    assert "did you mean" not in str(caught.value.hint)


def test_a_class_is_a_size_after_a_name() -> None:
    assert load_gpu("B200 192GB class").name == "b200-sxm"
    assert load_gpu("RTX 5090-class 32GB").name == "rtx5090"
