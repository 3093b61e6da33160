"""Write a model card from a config: the keys that count, each on its line, and where they were read."""

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


def card_text(
    config: dict[str, Any],
    *,
    name: str,
    title: str,
    hub: str | None,
    source: dict[str, str],
    hf_quant_config: dict[str, Any] | None = None,
) -> str:
    """The TOML of a card.

    Args:
        config: a config.json's object.
        source: `what`, `url` and `date` of the place where the config was read.
    """
    import tomli_w

    kept = _kept(config)
    top: dict[str, Any] = {"name": name, "title": title}
    if hub:
        top["hub"] = hub
    if nulls := _null_paths(kept):
        top["explicit_null"] = nulls
    tables = {"source": source, "config": kept, "hf_quant_config": hf_quant_config}
    try:
        return tomli_w.dumps(_without_nulls(top | {name: table for name, table in tables.items() if table}))
    except TypeError as error:
        raise KvcalcError(f"a card cannot hold this: {error}", hint="give a config.json as on the Hub") from error


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


def _without_nulls(value: Any) -> Any:
    """TOML has no null: `explicit_null` says where one was."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value if one is not None] if isinstance(value, list) else value
