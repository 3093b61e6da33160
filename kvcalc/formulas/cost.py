"""Money."""


def usd_per_million_tokens(usd_per_gpu_hour: float, gpus: float, tokens_per_s: float) -> float:
    """What a million tokens cost at a steady throughput.

    Args:
        usd_per_gpu_hour: Price of one GPU for an hour, USD.
        gpus: GPUs of the deployment.
        tokens_per_s: Tokens per second of the whole deployment.

    Formula: 1_000_000 * usd_per_gpu_hour * gpus / (3600 * tokens_per_s)
    Unit: USD per million tokens
    Source: arithmetic: an hour's price over an hour's tokens

    >>> round(usd_per_million_tokens(usd_per_gpu_hour=2.50, gpus=4, tokens_per_s=2329), 2)
    1.19
    """
    return 1_000_000 * usd_per_gpu_hour * gpus / (3600 * tokens_per_s)


def usd_per_request(
    usd_per_million_input: float, usd_per_million_output: float, input_tokens: float, output_tokens: float
) -> float:
    """What one request costs at given prices of input and output tokens.

    Args:
        usd_per_million_input: Price of a million prompt tokens, USD.
        usd_per_million_output: Price of a million output tokens, USD.
        input_tokens: Prompt tokens.
        output_tokens: Output tokens.

    Formula: (usd_per_million_input * input_tokens + usd_per_million_output * output_tokens) / 1_000_000
    Unit: USD
    Source: arithmetic

    >>> usd_per_request(usd_per_million_input=0.5, usd_per_million_output=2, input_tokens=2000, output_tokens=500)
    0.002
    """
    return (usd_per_million_input * input_tokens + usd_per_million_output * output_tokens) / 1_000_000
