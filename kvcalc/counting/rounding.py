"""Sizes as engines make them: padded to a multiple, divided over ranks and rounded up.

Unit: that of what is divided
Source: DEFAULT_VOCAB_PADDING_SIZE and pad_vocab_size in vllm/model_executor/layers/vocab_parallel_embedding.py, and the
same in SGLang's; the rest is arithmetic
"""

VOCAB_MULTIPLE = 64  # engines pad the vocabulary to a multiple of this before they divide it


def round_up(size: int, multiple: int) -> int:
    """The next multiple.

    >>> round_up(151_643, VOCAB_MULTIPLE), round_up(128, 128)
    (151680, 128)
    """
    return ceil_div(size, multiple) * multiple


def ceil_div(size: int, ranks: int) -> int:
    """One rank's part, where the last may be filled up.

    >>> ceil_div(10, 4)
    3
    """
    return -(-size // ranks)
