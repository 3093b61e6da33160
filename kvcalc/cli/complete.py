"""What the shell offers for a half-typed name."""


def models(incomplete: str) -> list[str]:
    """Cards."""
    from kvcalc.catalog.cards import card_names

    return [name for name in card_names() if name.startswith(incomplete.lower())]


def gpus(incomplete: str) -> list[str]:
    """GPU specs."""
    from kvcalc.catalog.gpus import gpu_names

    return [name for name in gpu_names() if name.startswith(incomplete.lower())]
