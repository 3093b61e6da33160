"""SGLang's scheduler in the same plain way: prompts before decode, a guess that admits, retraction."""

from tests.simulator.reference.vllm import Vllm

FIRST, LEAST, CLIP, MOST, AHEAD = 0.7, 0.14 * 0.7, 4096, 16_384, 20


class Sglang(Vllm):
    def __init__(self, settings):
        super().__init__(settings)
        self.ratio = FIRST

    def plan(self, step):
        self.tokens = {}
        if not self.running:
            self.ratio = FIRST
        self.prompts()
        if not self.tokens:
            self.make_room()
            for one in self.decoding():
                one.table += [self.blocks.new() for _ in range(max(0, self.more(one)))]
                self.take(one, self.rows)
        return list(self.tokens.items())

    def decoding(self):
        return [one for one in self.running if one.decodes and not one.ended]

    def more(self, sequence):
        """Blocks that its next step takes."""
        return self.held(sequence.computed + self.rows + self.ahead) - len(sequence.table)

    def passed(self, plan):
        if not self.begun:
            self.ratio = max(LEAST, self.ratio - (FIRST - LEAST) / 600)

    def prompts(self):
        size = self.settings.block_size
        self.begun = []
        self.budget, whole = self.settings.max_num_batched_tokens, MOST
        unfinished = [one for one in self.running if not one.decodes and not one.ended]
        for one in unfinished:
            tokens = min(one.known - one.computed, self.budget)
            one.table += [self.blocks.new() for _ in range(self.held(one.computed + tokens) - len(one.table))]
            self.begun.append(one)
            self.take(one, tokens)
            whole -= tokens
        expected = sum(min(one.output - one.generated, CLIP) for one in self.decoding())
        room = len(self.blocks.free) * size - expected * self.ratio
        while self.waiting and self.budget > 0 and whole > 0 and self.slots > 0:
            if any(one.computed + tokens < one.known for one, tokens in self.tokens.items()):
                return  # one prompt is computed in part at a time
            one = self.waiting[0]
            found = self.blocks.find(one.names((one.known - 1 - self.settings.dropped_tokens) // size, size))
            blocks = self.held(one.known) - len(found) + self.blocks.idle(found)
            wanted = blocks * size + min(one.output - one.generated, CLIP)
            if blocks > len(self.blocks.free) or (self.running and wanted >= room):
                self.lacks()
                return
            if self.tokens and one.known - len(found) * size >= whole:
                return
            self.waiting.pop(0)
            for block in found:
                self.blocks.hold(block)
            one.computed = len(found) * size
            tokens = min(one.known - one.computed, self.budget)
            fresh = self.held(one.computed + tokens) - len(found)
            one.table = found + [self.blocks.new() for _ in range(fresh)]
            if not one.preempted:
                self.queried += one.known
                self.hit += one.computed
            self.running.append(one)
            self.begun.append(one)
            self.take(one, tokens)
            whole, room = whole - tokens, room - wanted

    def make_room(self):
        size = self.settings.block_size
        left = sorted(self.decoding(), key=lambda one: (-one.generated, one.prompt))

        def needed():
            return sum(max(0, self.more(one)) for one in left)

        if needed() <= len(self.blocks.free):
            return
        while left and (needed() > len(self.blocks.free) or len(self.blocks.free) * size < len(left) * AHEAD):
            if len(left) == 1 and needed() <= len(self.blocks.free):
                break
            self.retract(left.pop())
        out, most = sum(one.generated for one in left), sum(one.output for one in left)
        self.ratio = min(1.0, (out + AHEAD * len(left)) / (most + 1))

    def retract(self, one):
        self.lacks()
        self.preemptions += 1
        self.recomputed += one.computed
        self.running.remove(one)
        self.blocks.give_back(one.table)
        one.table, one.computed, one.preempted = [], 0, True
        self.receive(one)
