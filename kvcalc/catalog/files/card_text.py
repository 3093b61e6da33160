"""Write a model card from a config: the keys that count, each on its line, and where they were read."""

import json
import re
from typing import Any

from kvcalc.errors import KvcalcError

# Keys that decide neither shape, cache nor weights: tokens, training, sampling, book-keeping, numerical constants.
_LEFT_OUT = re.compile(
    r"_.*"
    r"|(bos|eos|pad|sep|cls|mask|unk|boi|eoi|boa|eoa|decoder_start|forced_\w+|suppress|begin_suppress|image|video|audio"
    r"|vision\w*|speech|user|assistant)_tokens?(_ids?|_index)?"
    r"|\w*(_eps|_epsilon|dropout|_pdrop|_coef|_coeff|_loss|_jitter_noise|softcapping|_temperature)"
    r"|\w*(initializer|dropout|rope_theta)\w*"
    r"|(embedding|residual|attention|lm_head|ssm_in|ssm_out|key)_multiplier|(mlp|ssm)_multipliers"
    r"|architectures|auto_map|torchscript|use_cache|pretraining_tp|problem_type|id2label|label2id"
    r"|output_attentions|output_hidden_states|output_router_logits|return_dict|pruned_heads|gradient_checkpointing"
    r"|task_specific_params|chunk_size_feed_forward|temperature|top_p|repetition_penalty|length_penalty|num_beams"
    r"|max_length|min_length|do_sample|early_stopping|routed_scaling_factor|scoring_func|topk_method|norm_topk_prob"
    r"|n_group|topk_group|logit_scale|logits_scaling|query_pre_attn_scalar|rope_local_base_freq|swiglu_limit"
    r"|transformers\.js_config|time_step_\w*|ep_size|aux_loss_alpha|seq_aux|attn_implementation|rope_interleaved?"
)
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_WIDTH = 110


def card_text(
    config: dict[str, Any],
    *,
    name: str,
    title: str,
    hub: str | None,
    source: dict[str, str],
    aliases: tuple[str, ...] = (),
    published: dict[str, dict[str, Any]] | None = None,
    hf_quant_config: dict[str, Any] | None = None,
) -> str:
    """The TOML of a card.

    Args:
        config: a config.json's object.
        source: `what`, `url` and `date` of the place where the config was read.
        published: counts by others, each with `value` and `source`.
    """
    kept = _kept(config)
    top: dict[str, Any] = {"name": name, "title": title}
    if hub:
        top["hub"] = hub
    if aliases:
        top["aliases"] = list(aliases)
    if nulls := _null_paths(kept):
        top["explicit_null"] = nulls
    parts = [_pairs(top), _table("source", source)]
    parts += [_table(f"published.{key}", value) for key, value in (published or {}).items()]
    parts += _tables("config", kept)
    if hf_quant_config is not None:
        parts += _tables("hf_quant_config", hf_quant_config)
    return "\n".join(parts)


def _kept(config: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for key, value in config.items():
        if key in ("quantization_config", "quantization", "compression_config"):
            kept[key] = value
        elif not _LEFT_OUT.fullmatch(key):
            kept[key] = _kept(value) if isinstance(value, dict) else value
    return kept


def _null_paths(config: dict[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for key, value in config.items():
        if value is None:
            found.append(prefix + key)
        elif isinstance(value, dict) and _BARE.match(key):
            found += _null_paths(value, f"{prefix}{key}.")
    return found


def _key(key: str) -> str:
    return key if _BARE.match(key) else json.dumps(key, ensure_ascii=False)


def _table(name: str, values: dict[str, Any]) -> str:
    return f"[{name}]\n{_pairs(values)}"


def _tables(name: str, values: dict[str, Any]) -> list[str]:
    """The table, its plain values first, then one table for each nested object."""
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    parts = [_table(name, plain)]
    for key, value in values.items():
        if isinstance(value, dict):
            parts += _tables(f"{name}.{_key(key)}", value)
    return parts


def _pairs(values: dict[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in values.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return _array([_value(item) for item in value if item is not None])
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None) + "}"
    raise KvcalcError(f"a card cannot hold a {type(value).__name__}", hint="give a config.json as it is on the Hub")


def _array(items: list[str]) -> str:
    if sum(len(item) + 2 for item in items) < _WIDTH - 30:
        return "[" + ", ".join(items) + "]"
    lines, line = [], ""
    for item in items:
        if len(line) + len(item) + 2 > _WIDTH:
            lines.append(line.rstrip())
            line = ""
        line += item + ", "
    return "[\n  " + "\n  ".join([*lines, line.rstrip()]) + "\n]"
