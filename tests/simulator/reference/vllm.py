"""vLLM's scheduler step by step and block by block, as plainly as it can be written: what the event jump must equal.

With it what differs from it in one rule: who starts must have room to its last token (TensorRT-LLM), blocks that move
to the host (the vLLM paper), prompts that come computed from another pool.
"""

from tests.simulator.reference.blocks import Blocks


class Vllm:
    again = False
    more_s = 0.0  # that the planned step takes longer

    def __init__(self, settings):
        self.settings = settings
        self.blocks = Blocks(settings.num_blocks, settings.block_size, settings.prefix_caching)
        self.waiting, self.running = [], []
        self.first_come = settings.policy == "fcfs"
        drafts = settings.drafts
        self.rows, self.ahead = (1, 0) if drafts is None else (drafts.rows, drafts.lookahead)
        self.give = (lambda number: 1) if drafts is None else drafts.giver()
        self.preemptions = self.recomputed = self.hit = self.queried = 0
        self.full_s, self.came = None, 0
        self.loop = None

    @property
    def taken(self):
        """Slots."""
        return len(self.running)

    @property
    def busy(self):
        return self.waiting or self.taken

    def receive(self, sequence):
        sequence.came = self.came = self.came + 1
        self.waiting.append(sequence)
        self.sort()

    def sort(self):
        if not self.first_come:
            self.waiting.sort(key=self.urgency)

    def urgency(self, sequence):
        return sequence.urgency, sequence.came

    def gone(self, sequence):
        """Its last token is known."""
        if sequence in self.running:
            self.running.remove(sequence)
            self.blocks.give_back(sequence.table)

    def passed(self, plan):
        """A step has run."""

    def lacks(self):
        if self.full_s is None:
            self.full_s = self.loop.ran_until

    # A step

    def plan(self, step):
        self.tokens = {}
        self.budget = self.settings.max_num_batched_tokens
        stopped = self.run_on()
        late = step % self.settings.prefill_schedule_interval and any(one.decodes for one in self.tokens)
        if not stopped and not late:
            self.admit()
        self.again = stopped and not self.tokens
        return list(self.tokens.items())

    def held(self, tokens):
        return -(-tokens // self.settings.block_size) + self.settings.extra_blocks

    def wanted(self, sequence):
        if sequence.ended:
            return 0
        if sequence.decodes:
            return self.rows
        return min(sequence.known - sequence.computed, self.settings.long_prefill_token_threshold or 10**9)

    def run_on(self):
        """Running requests take from the budget; whether anybody was stopped."""
        stopped, index = False, 0
        while index < len(self.running):
            sequence = self.running[index]
            tokens = min(self.wanted(sequence), self.budget)
            if tokens:
                need = self.held(sequence.computed + tokens + sequence.decodes * self.ahead) - len(sequence.table)
                while need > len(self.blocks.free):
                    self.lacks()
                    victim = self.running[-1] if self.first_come else max(self.running, key=self.urgency)
                    index -= self.running.index(victim) < index
                    self.budget += self.tokens.pop(victim, 0)
                    self.stop(victim)
                    stopped = True
                    if victim is sequence:
                        return True
                sequence.table += [self.blocks.new() for _ in range(need)]
                self.take(sequence, tokens)
            index += 1
        return stopped

    def take(self, sequence, tokens):
        full = min(sequence.computed + tokens, sequence.known) // self.settings.block_size
        if self.settings.prefix_caching:
            for block, name in zip(sequence.table[:full], sequence.names(full, self.settings.block_size), strict=True):
                self.blocks.set_name(block, name)
        self.tokens[sequence] = tokens
        self.budget -= tokens

    def stop(self, victim):
        self.preemptions += 1
        self.running.remove(victim)
        self.blocks.give_back(victim.table)
        victim.table = []
        if not victim.ended:
            self.recomputed += victim.computed
            victim.computed, victim.preempted = 0, True
            self.waiting.insert(0, victim)
            self.sort()

    # The queue

    @property
    def slots(self):
        return self.settings.max_num_seqs - self.taken

    def admit(self):
        while self.waiting and self.budget > 0 and self.slots > 0 and self.begin(self.waiting[0]):
            pass

    def begin(self, sequence):
        """The queue's head starts; False: it has no room."""
        settings, size = self.settings, self.settings.block_size
        found = self.blocks.find(sequence.names((sequence.known - 1 - settings.dropped_tokens) // size, size))
        have = len(found) * size
        tokens = min(sequence.known - have, settings.long_prefill_token_threshold or 10**9)
        if settings.whole_prompts and tokens > self.budget and self.budget < settings.max_num_batched_tokens:
            return False
        tokens = min(tokens, self.budget)
        asked = sequence.known if settings.whole_prompt_fits else have + tokens
        if not self.fits(self.held(asked) - len(found) + self.blocks.idle(found), sequence):
            self.lacks()
            return False
        self.waiting.pop(0)
        for block in found:
            self.blocks.hold(block)
        sequence.table = found + [self.blocks.new() for _ in range(self.held(have + tokens) - len(found))]
        if not sequence.preempted:
            self.queried += sequence.known
            self.hit += have
        sequence.computed = have
        self.running.append(sequence)
        self.take(sequence, tokens)
        return True

    def fits(self, blocks, sequence):
        if self.settings.answers_fit:
            ends = [one.prompt + one.output - 2 + self.rows + self.ahead for one in [*self.running, sequence]]
            if sum(map(self.held, ends)) > self.settings.num_blocks:
                return False
        return blocks <= len(self.blocks.free) - (self.settings.watermark_blocks if self.taken else 0)


class Swapping(Vllm):
    """Who decodes and is stopped moves to the host where it has room; nobody new starts while one is there."""

    def __init__(self, settings):
        super().__init__(settings)
        self.swapped = []
        self.host = settings.swap_blocks

    @property
    def taken(self):
        return len(self.running) + len(self.swapped)

    def plan(self, step):
        self.more_s = 0.0
        return super().plan(step)

    def move(self, blocks):
        self.more_s += blocks * self.settings.swap_block_s

    def stop(self, victim):
        blocks = self.held(victim.computed)
        if not victim.decodes or victim.ended or blocks > self.host:
            super().stop(victim)
            return
        self.preemptions += 1
        self.running.remove(victim)
        self.blocks.give_back(victim.table)
        victim.table = []
        self.host -= blocks
        self.move(blocks)
        self.swapped.insert(0, victim)

    def run_on(self):
        stopped = super().run_on()
        while self.swapped and not stopped:
            sequence = self.swapped[0]
            need = self.held(sequence.computed + 1)
            if need > len(self.blocks.free) - (self.settings.watermark_blocks if self.decoding() else 0):
                break
            self.swapped.pop(0)
            blocks = self.held(sequence.computed)
            self.host += blocks
            self.move(blocks)
            sequence.table = [self.blocks.new() for _ in range(need)]
            self.running.append(sequence)
            self.take(sequence, 1)
            sequence.restored = True
        return stopped or bool(self.swapped)

    def decoding(self):
        return [one for one in self.running if one.decodes and not one.ended]


class Receiving(Vllm):
    """Prompts come computed, with a first token; who is stopped is computed anew."""

    def receive(self, sequence):
        sequence.computed, sequence.generated = sequence.prompt, 1
        sequence.last = self.loop.given[sequence.number]
        super().receive(sequence)

    def begin(self, sequence):
        if sequence.preempted:
            return super().begin(sequence)
        need = self.held(sequence.computed + self.rows + self.ahead)
        if not self.fits(need, sequence):
            self.lacks()
            return False
        self.waiting.pop(0)
        sequence.table = [self.blocks.new() for _ in range(need)]
        sequence.restored = True
        self.running.append(sequence)
        self.take(sequence, min(self.rows, self.budget))
        return True
