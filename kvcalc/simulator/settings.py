"""What a scheduler is set to. Names are vLLM's."""

from dataclasses import dataclass
from typing import Literal

from kvcalc.simulator.drafts import Drafts

Preemption = Literal["recompute", "swap"]
Policy = Literal["fcfs", "priority"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one replica. Lengths in tokens, `num_blocks` those that sequences may use."""

    max_num_seqs: int
    max_num_batched_tokens: int
    num_blocks: int
    block_size: int = 16
    lag: int = 1  # steps that are planned ahead of the results: 1 with asynchronous scheduling
    whole_prompt_fits: bool = True  # admission asks for blocks of the whole prompt, not of its first chunk
    watermark_blocks: int = 0  # stay free when admitting beside running requests
    prefill_schedule_interval: int = 1  # prompts only in every N-th step
    prefix_caching: bool = False
    recv_interval: int = 1  # steps between two looks at what has arrived (SGLang)
    extra_blocks: int = 0  # of each sequence, whatever its length: state and windows
    preemption: Preemption = "recompute"
    swap_blocks: int = 0  # that the host holds; 0: no swap space
    swap_block_s: float = 0.0  # to move one block one way
    whole_prompts: bool = False  # a prompt is computed in one step, if any step has room for it
    answers_fit: bool = False  # admission asks for blocks of the whole answer too, so that nobody is ever stopped
    policy: Policy = "fcfs"
    long_prefill_token_threshold: int = 0  # tokens of one prompt in a step at most; 0: as many as fit
    drafts: Drafts | None = None
    dropped_tokens: int = 0  # cached tokens that drafting recomputes

    @property
    def singly(self) -> bool:
        """Whether every step has to be looked at."""
        return bool(self.long_prefill_token_threshold or self.drafts or self.policy != "fcfs")
