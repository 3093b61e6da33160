"""The lessons' schedulers in the same plain way: static batches, and a cache that is reserved in one piece."""

from kvcalc.simulator.contiguous import Buddies, Equal, reserved_tokens
from tests.simulator.reference.vllm import Vllm


class Static(Vllm):
    """A batch starts together and gives its slots and blocks back together."""

    def __init__(self, settings):
        super().__init__(settings)
        self.ends = []

    def gone(self, sequence):
        self.ends.append(sequence)
        if len(self.ends) == len(self.running):
            for one in self.running:
                self.blocks.give_back(one.table)
            self.running, self.ends = [], []

    def plan(self, step):
        self.tokens = {}
        if not self.running:
            self.form()
        self.budget = self.settings.max_num_batched_tokens
        for one in self.running:
            if not one.generated and self.budget:
                self.tokens[one] = min(one.prompt - one.computed, self.budget)
                self.budget -= self.tokens[one]
        return list(self.tokens.items()) or [(one, 1) for one in self.running if not one.ended]

    def form(self):
        while self.waiting and self.slots:
            one = self.waiting[0]
            blocks = self.held(one.prompt + one.output - 1)
            if blocks > len(self.blocks.free):
                self.lacks()
                return
            one.table = [self.blocks.new() for _ in range(blocks)]
            self.running.append(self.waiting.pop(0))


class Orca(Vllm):
    """Continuous batches; a region of the reserved length must be free."""

    def __init__(self, settings, reservation, longest):
        super().__init__(settings)
        slots = settings.num_blocks * settings.block_size
        self.memory = Equal(slots, longest) if reservation == "max" else Buddies(slots)
        self.reservation, self.longest = reservation, longest
        self.regions = {}

    def gone(self, sequence):
        self.running.remove(sequence)
        self.memory.release(self.regions.pop(sequence))

    def plan(self, step):
        self.tokens = {one: 1 for one in self.running if one.decodes and not one.ended}
        self.budget = self.settings.max_num_batched_tokens - len(self.tokens)
        for one in self.running:
            if not one.generated and self.budget:
                self.part(one)
        while self.waiting and self.budget > 0 and self.slots:
            one = self.waiting[0]
            region = self.memory.allocate(reserved_tokens(self.reservation, one.prompt, one.output, self.longest))
            if region is None:
                self.lacks()
                break
            self.regions[one] = region
            self.running.append(self.waiting.pop(0))
            self.part(one)
        return list(self.tokens.items())

    def part(self, one):
        self.tokens[one] = min(one.prompt - one.computed, self.budget)
        self.budget -= self.tokens[one]
