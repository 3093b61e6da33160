"""Generation with continuous batching: prompts take slots, grow at their own pace, finish and are replaced."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kvcalc.errors import KvcalcError
from kvcalc.executor.loop import Decoder
from kvcalc.executor.pages import Sequence


@dataclass
class Request:
    """A prompt, what was generated for it, and the cache while it runs."""

    prompt: list[int]
    generated: list[int] = field(default_factory=list)
    sequence: Sequence = field(default_factory=Sequence)

    @property
    def next_token(self) -> int:
        """What is fed next: the prompt, then what was generated."""
        return (self.prompt + self.generated)[self.sequence.length]


def generate(decoder: Decoder, prompts: Iterable[list[int]], new_tokens: int) -> list[list[int]]:
    """Continue each prompt by `new_tokens` tokens. Prompts are fed token by token, as this is a decode loop.

    An idle slot runs on a page that no request has, so that the batch keeps its size.

    Raises:
        KvcalcError: an empty prompt, or one longer than a slot's room.
    """
    requests = [Request(list(prompt)) for prompt in prompts]
    room = min(view.table.shape[1] for view in decoder.views) * decoder.views[0].page_size
    for one in requests:
        if not one.prompt or len(one.prompt) + new_tokens > room:
            raise KvcalcError(
                f"a prompt of {len(one.prompt)} tokens and {new_tokens} new ones", hint=f"1 to {room} tokens in all"
            )
    pages = decoder.model.cache.pages
    batch = decoder.tokens.numel()
    idle = pages.start(1)
    waiting, running = list(requests), dict[int, Request]()
    while waiting or running:
        for slot in range(batch):
            if slot not in running and waiting:
                running[slot] = waiting.pop(0)
                running[slot].sequence = pages.start()
        fed = [running[slot].next_token if slot in running else 0 for slot in range(batch)]
        for one in running.values():
            pages.append(one.sequence)
        decoder.place(running[slot].sequence if slot in running else idle for slot in range(batch))
        decoder.feed(fed)
        decoder.step()
        produced = decoder.tokens.tolist()
        for slot, one in list(running.items()):
            if one.sequence.length >= len(one.prompt):
                one.generated.append(produced[slot])
            if len(one.generated) >= new_tokens:
                pages.finish(one.sequence)
                del running[slot]
    pages.finish(idle)
    return [one.generated for one in requests]
