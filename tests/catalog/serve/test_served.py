"""What a pasted command means. The meanings are the engines' own parsers' (named in the tables), worked out by hand."""

from pathlib import Path

import pytest

from kvcalc.catalog.serve.served import read_command
from kvcalc.errors import KvcalcError

MODEL = "Qwen/Qwen3-8B"
AROUND = {
    "plain": "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 4 --port 8000",
    "underscores": "vllm serve Qwen/Qwen3-8B --tensor_parallel_size=4 --port=8000",
    "short": "vllm serve Qwen/Qwen3-8B -tp 4 --port 8000",
    "a beginning": "vllm serve Qwen/Qwen3-8B --tensor-par 4 --port 8000",
    "module": "/usr/bin/python3 -u -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B -tp 4 --port 8000",
    "assignments": "CUDA_HOME=/cuda TP=4 exec vllm serve Qwen/Qwen3-8B -tp $TP --port 8000",
    "a script": "#!/bin/bash\nexport TP=4\nMODEL=Qwen/Qwen3-8B\n"
    "vllm serve $MODEL \\\n  -tp ${TP} \\\n  --port 8000 &\nwait",
    "a default": "vllm serve ${MODEL:-Qwen/Qwen3-8B} -tp ${TP:-4} --port 8000 > server.log 2>&1",
    "a comment": "# start it\nvllm serve Qwen/Qwen3-8B -tp 4 --port 8000  # the web",
    "prompt": "$ vllm serve Qwen/Qwen3-8B -tp 4 --port 8000",
    "windows": "vllm.exe serve Qwen/Qwen3-8B ^\r\n  -tp 4 ^\r\n --port 8000",
    "shell in shell": "bash -lc 'source env.sh && vllm serve Qwen/Qwen3-8B -tp 4 --port 8000'",
    "nohup": "nohup numactl -N 0 vllm serve Qwen/Qwen3-8B -tp 4 --port 8000 | tee log",
    "docker": (
        "docker run --rm -it --gpus all --shm-size 16g -v /cache:/root/.cache -e HF_TOKEN=x -p 8000:8000 "
        "vllm/vllm-openai:latest --model Qwen/Qwen3-8B -tp 4 --port 8000"
    ),
    "quoted once more": '"vllm serve Qwen/Qwen3-8B -tp 4 --port 8000"',
    "typeset dashes": "vllm serve Qwen/Qwen3-8B –tensor-parallel-size 4 —port 8000",
    "a unit of systemd": "[Service]\nExecStart=/usr/bin/vllm serve Qwen/Qwen3-8B -tp 4 --port 8000\n",
    "kubectl": "kubectl run llm --image=vllm/vllm-openai:latest -- --model Qwen/Qwen3-8B -tp 4 --port 8000",
    "a Dockerfile": "FROM vllm/vllm-openai:latest\nENV A=1\n"
    'ENTRYPOINT ["vllm", "serve", "Qwen/Qwen3-8B"]\nCMD ["-tp", "4", "--port", "8000"]',
    "more arguments": 'exec vllm serve Qwen/Qwen3-8B -tp 4 --port 8000 "$@"',
    "an output in a flag that changes nothing": "vllm serve Qwen/Qwen3-8B -tp 4 --port $(cat port | head -1)",
    "arguments alone": "--model Qwen/Qwen3-8B --tensor-parallel-size 4 --port 8000 --max-logprobs 5",
    "a JSON list": '["--model", "Qwen/Qwen3-8B", "--tensor-parallel-size", "4", "--port", "8000", "--max-logprobs=5"]',
    "compose": """
services:
  llm:
    image: vllm/vllm-openai:latest
    environment:
      - TP=4
    command: >
      --model Qwen/Qwen3-8B
      --tensor-parallel-size ${TP}
      --port 8000
""",
    "kubernetes": """
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: server
          image: my/registry:1
          env:
            - name: TP
              value: "4"
          command: ["vllm", "serve"]
          args:
            - Qwen/Qwen3-8B
            - --tensor-parallel-size
            - $(TP)
            - "--port=8000"
""",
}


@pytest.mark.parametrize("text", AROUND.values(), ids=AROUND.keys())
def test_what_stands_around_a_command_does_not_matter(text: str) -> None:
    served = read_command(text)
    assert served.engine == "vllm"
    assert served.model == MODEL
    assert dict(served.fields) == {"tensor_parallel_size": "4"}
    assert "--port" in served.ignored
    assert not served.unknown
    assert not served.unresolved


def test_windows_paths_and_placeholders_survive() -> None:
    served = read_command(
        r'llama-server.exe -m "C:\models\a b.gguf" --mmproj C:\models\mmproj.gguf -c 8000 --api-key <your-key>'
    )
    assert served.model == r"C:\models\a b.gguf"
    assert served.fields == {"ctx_size": "8000"}
    assert served.not_modelled == (("--mmproj", "memory"),)


@pytest.mark.parametrize(
    "text, shown",
    [
        ('--speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\'', ("mtp", None, 2)),
        ("--speculative-config.method mtp --speculative-config.num_speculative_tokens 2", ("mtp", None, 2)),
        ("--spec-method mtp --spec-tokens 2", ("mtp", None, 2)),
        ("-sc.model a/eagle3-b -sc.num_speculative_tokens 2", ("eagle3", "a/eagle3-b", 2)),
    ],
)
def test_speculation_in_its_spellings(text: str, shown: tuple[str, str | None, int]) -> None:
    spec = read_command(f"vllm serve m {text}").speculation
    assert spec is not None
    assert (spec["method"], spec["model"], spec["num_speculative_tokens"]) == shown


def test_sglang_counts_the_token_that_the_target_adds() -> None:
    """python/sglang/srt/server_args.py: with one branch, draft tokens are the steps and one more."""
    line = (
        "python -m sglang.launch_server --model-path m --speculative-algorithm EAGLE --speculative-num-draft-tokens 4"
    )
    served = read_command(line)
    assert served.fields["num_speculative_tokens"] == "3"
    assert served.speculation == {"model": None, "method": "EAGLE", "num_draft_tokens": 4, "num_speculative_tokens": 3}


def test_sglang_takes_beginnings_and_refuses_underscores() -> None:
    served = read_command("python -m sglang.launch_server --model-path m --tp 8 --mem_fraction_static 0.8 --pp 2")
    assert served.fields == {"tensor_parallel_size": "8"}
    assert [name for name, _ in served.unknown] == ["--mem_fraction_static", "--pp"]


def test_llamacpp_takes_no_equals_sign_and_folds_underscores() -> None:
    served = read_command("llama-server -m m.gguf --ctx_size 4096 --parallel=2")
    assert served.fields == {"ctx_size": "4096"}
    assert served.unknown == (("--parallel", "-np"),)


def test_the_file_of_tensorrt_llm_wins_over_the_flags(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(
        "kv_cache_config:\n  dtype: fp8\n  free_gpu_memory_fraction: 0.7\nmax_seq_len: 4096\n"
    )
    line = "trtllm-serve m --max_seq_len 8192 --kv_cache_free_gpu_memory_fraction 0.9 --config more.yaml"
    served = read_command(line, folder=tmp_path)
    assert served.fields == {"max_model_len": "4096", "gpu_memory_utilization": "0.7", "kv_cache_dtype": "fp8"}
    assert read_command(line, folder=tmp_path / "nowhere").unread_files == ("more.yaml",)


def test_tensorrt_llm_may_split_prompts_by_a_switch_or_by_its_file(tmp_path: Path) -> None:
    assert read_command("trtllm-serve m --enable_chunked_prefill").fields["enable_chunked_prefill"] is True
    (tmp_path / "more.yaml").write_text("enable_chunked_prefill: true\n")
    found = read_command(f"trtllm-serve m --config {tmp_path / 'more.yaml'}").fields["enable_chunked_prefill"]
    assert str(found).lower() == "true"
    assert "enable_chunked_prefill" not in read_command("trtllm-serve m").fields


def test_the_file_of_vllm_stands_below_the_flags(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(
        "model: m\nmax-model-len: 4096\ntensor-parallel-size: 2\nenforce-eager: true\n"
    )
    served = read_command("vllm serve --config serve.yaml -tp 4", folder=tmp_path)
    assert served.model == "m"
    assert served.fields == {"max_model_len": "4096", "tensor_parallel_size": "4", "enforce_eager": True}


def test_variables_in_flags_that_count_are_named() -> None:
    served = read_command("vllm serve $MODEL -tp $TP --port $PORT --max-model-len 8k")
    assert served.unresolved == {
        "model": ("MODEL", ("$MODEL",)),
        "tensor_parallel_size": ("-tp", ("$TP",)),
    }


def test_bench_lists_are_tests() -> None:
    """tools/llama-bench: n_ctx = n_prompt + n_gen + n_depth of a test."""
    served = read_command("llama-bench -m a.gguf -p 512 -n 0 -d 0,4096 -ngl 99")
    assert served.models == ("a.gguf",)
    assert served.fields["parallel"] == "1"
    assert served.fields["ctx_size"] == "4608"


def test_an_output_in_a_flag_that_counts_is_named() -> None:
    for output in ("$(nvidia-smi -L | wc -l)", "`nvidia-smi -L | wc -l`"):
        served = read_command(f"vllm serve m -tp {output} --port 80")
        assert served.unresolved == {"tensor_parallel_size": ("-tp", (output,))}
        assert served.ignored == ("--port",)


CARDS = [
    ("CUDA_VISIBLE_DEVICES=0,1 llama-server -m m.gguf", {"pipeline_parallel_size": "2"}),
    ("llama-server -m m.gguf -ts 1,1,1 -sm row", {"tensor_parallel_size": "3"}),
    ("llama-server -m m.gguf -ts 1,0", {}),
    ("llama-bench -m m.gguf -p 1 -n 0 -ts 1/1", {"pipeline_parallel_size": "2"}),
    ("CUDA_VISIBLE_DEVICES=0,1 llama-server -m m.gguf -sm none", {}),
]


@pytest.mark.parametrize("text, fields", CARDS)
def test_the_cards_of_llamacpp_are_counted(text: str, fields: dict[str, str]) -> None:
    """common/arg.cpp: -sm layer (default) shares out layers, row and tensor split each, none takes one card."""
    found = read_command(text).fields
    assert {name: value for name, value in found.items() if "parallel_size" in name} == fields


def test_unequal_shares_are_said() -> None:
    assert "equal shares" in read_command("llama-server -m m.gguf -ts 3,1").notes[0]


def test_a_context_of_nought_is_the_models_own() -> None:
    assert read_command("llama-server -m m.gguf -c 0").fields == {}


def test_replicas_of_attention_stand_inside_the_ranks_of_a_node() -> None:
    line = "python -m sglang.launch_server --model-path m --tp 16 --nnodes 2 --enable-dp-attention --dp 4"
    assert read_command(line).fields["gpus_per_node"] == "8"


@pytest.mark.parametrize("text", ["helm install x --set a.b=3", "torchrun --nproc 8 a.py --model x"])
def test_another_program_is_no_list_of_arguments(text: str) -> None:
    with pytest.raises(KvcalcError):
        read_command(text)


def test_an_image_names_the_version() -> None:
    assert read_command("docker run lmsysorg/sglang:v0.5.2-cu126 sglang serve --model m").version == "0.5.2"
    assert read_command("docker run rocm/vllm:rocm7.0.0_vllm_0.11.2_20251210 vllm serve m").version == "0.11.2"
    assert read_command("docker run nvcr.io/nvidia/vllm:25.09-py3 vllm serve m").version is None
    assert read_command("srun --container-image=a/vllm:v0.9.1 bash -c 'exec vllm serve m'").version == "0.9.1"
    assert read_command("docker run vllm/vllm-openai:v0.19.1 --model m").version == "0.19.1"
    assert read_command("podman run ghcr.io/ggml-org/llama.cpp:server-cuda-b6000 -m m.gguf").version == "6000"


def test_switches_take_their_opposites() -> None:
    on = read_command("vllm serve m --enable-prefix-caching=True --no-enforce-eager --swap-space 4")
    assert on.fields == {"enable_prefix_caching": True, "enforce_eager": False, "swap_space_bytes": "4"}
    off = read_command("python -m sglang.launch_server --model m --disable-radix-cache")
    assert off.fields == {"enable_prefix_caching": False}


@pytest.mark.parametrize(
    "text", ["", "  ", "echo hello", "pip install vllm", "--port 80", "{not: [yaml", "a: b: c\n- d"]
)
def test_no_command_is_an_error(text: str) -> None:
    with pytest.raises(KvcalcError):
        read_command(text)


def test_a_value_that_is_missing_or_wrong_is_an_error() -> None:
    with pytest.raises(KvcalcError, match="has no value"):
        read_command("vllm serve m --max-model-len --port 80")
    with pytest.raises(KvcalcError, match="no JSON object"):
        read_command("vllm serve m --speculative-config nothing")
