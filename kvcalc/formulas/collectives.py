"""Moving bytes between GPUs, and between a GPU and its host."""


def ring_all_reduce_bytes(message_bytes: float, ranks: float) -> float:
    """Bytes that each rank sends in a ring all-reduce: a reduce-scatter, then an all-gather.

    Args:
        message_bytes: Bytes of the tensor that is summed.
        ranks: Ranks in the ring.

    Formula: 2 * (ranks - 1) * message_bytes / ranks
    Unit: bytes
    Source: Patarasuk and Yuan 2009 (bandwidth-optimal all-reduce)

    >>> ring_all_reduce_bytes(message_bytes=8192, ranks=4)
    12288.0
    """
    return 2 * (ranks - 1) * message_bytes / ranks


def all_gather_bytes(message_bytes: float, ranks: float) -> float:
    """Bytes that each rank sends in an all-gather, a reduce-scatter or an all-to-all of the whole message.

    Args:
        message_bytes: Bytes of the gathered tensor.
        ranks: Ranks.

    Formula: (ranks - 1) * message_bytes / ranks
    Unit: bytes
    Source: Thakur, Rabenseifner and Gropp 2005, section 4

    >>> all_gather_bytes(message_bytes=8192, ranks=4)
    6144.0
    """
    return (ranks - 1) * message_bytes / ranks


def transfer_time(
    message_bytes: float, bandwidth_bytes_per_s: float, latency_s: float = 0, messages: float = 1
) -> float:
    """Time to send bytes over a link, with a latency for each message: the alpha-beta model.

    It serves the cache that a prefill pool hands to a decode pool, and the blocks that are swapped to the host, where
    each block is a message.

    Args:
        message_bytes: All bytes together.
        bandwidth_bytes_per_s: Bandwidth of the link in this direction, bytes/s.
        latency_s: Latency of one message, s.
        messages: Messages, one after the other.

    Formula: messages * latency_s + message_bytes / bandwidth_bytes_per_s
    Unit: s
    Source: Hockney 1994; Thakur, Rabenseifner and Gropp 2005, section 3

    >>> round(transfer_time(message_bytes=2048 * 131072, bandwidth_bytes_per_s=50e9), 5)
    0.00537
    """
    return messages * latency_s + message_bytes / bandwidth_bytes_per_s


def ring_all_reduce_time(
    message_bytes: float, ranks: float, bandwidth_bytes_per_s: float, latency_s: float = 0
) -> float:
    """Time of a ring all-reduce: 2(n - 1) hops, each with its latency and its share of the bytes.

    Args:
        message_bytes: Bytes of the tensor that is summed.
        ranks: Ranks in the ring.
        bandwidth_bytes_per_s: Bandwidth of one direction of a rank's link, bytes/s.
        latency_s: Latency of one hop, s.

    Formula: 2 * (ranks - 1) * (latency_s + message_bytes / (ranks * bandwidth_bytes_per_s))
    Unit: s
    Source: Thakur, Rabenseifner and Gropp 2005, section 4.4

    >>> round(ring_all_reduce_time(message_bytes=8e6, ranks=2, bandwidth_bytes_per_s=400e9, latency_s=5e-6), 6)
    3e-05
    """
    return 2 * (ranks - 1) * (latency_s + message_bytes / (ranks * bandwidth_bytes_per_s))
