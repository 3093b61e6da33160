"""In-flight batching that never stops anybody: who starts has room to its last token.

Source: TensorRT-LLM's GUARANTEED_NO_EVICT, the default (cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp): the
blocks that all running requests will need at most, and those of the next one, must be there. Blocks that requests share
are counted for each. Decode first, then prompts, as everywhere with one budget.
"""

from kvcalc.simulator.schedulers.vllm import VllmScheduler


class UnstoppedScheduler(VllmScheduler):
    """As vLLM's, but that the whole answer must fit."""

    final = 0  # blocks that the running requests will have at most

    def _at_most(self, request: int) -> int:
        return self._blocks(self.prompt[request] + self.output[request] - 1)

    def _fits(self, request: int, blocks: int) -> bool:
        return super()._fits(request, blocks) and self.final + self._at_most(request) <= self.settings.num_blocks

    def _start(self, request: int) -> None:
        self.final += self._at_most(request)
        super()._start(request)

    def _release(self, request: int, tokens: int, returns: bool) -> None:
        self.final -= self._at_most(request)
        super()._release(request, tokens, returns)
