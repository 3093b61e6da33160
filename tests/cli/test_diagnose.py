"""`kvcalc diagnose`: files as shells and orchestrators write them."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli

LOG = """\
Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-8B', max_seq_len=4096, tensor_parallel_size=1
Available KV cache memory: 58.11 GiB
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])  # Windows shells redirect in the last two
def test_any_encoding_of_a_shell(cli: Cli, tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "server.log"
    path.write_text(LOG, encoding=encoding)
    found = cli(f"diagnose {path} --json").result
    assert (found["engine"], found["version"], found["model"]) == ("vllm", "0.19.0", "qwen3-8b")
