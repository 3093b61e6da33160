"""vLLM's scheduler step by step and block by block, as plainly as it can be written: what the event jump must equal.

Every block has a number, every sequence a table of them, and nothing is done ahead: no jump, no piece, no shared count.
"""

from collections import OrderedDict


class Blocks:
    """Numbered blocks: a free queue in order, names of full blocks, reference counts."""

    def __init__(self, count, size, caching):
        self.size, self.caching = size, caching
        self.free = OrderedDict((i, None) for i in range(count))
        self.name_of = {}
        self.named = {}  # name → blocks in the order in which they were named
        self.refs = [0] * count

    def find(self, names):
        found = []
        for name in names:
            if not self.caching or not self.named.get(name):
                break
            found.append(next(iter(self.named[name])))
        return found

    def hold(self, block):
        if self.refs[block] == 0:
            del self.free[block]
        self.refs[block] += 1

    def new(self):
        block, _ = self.free.popitem(last=False)
        name = self.name_of.pop(block, None)
        if name is not None:
            del self.named[name][block]
        self.refs[block] = 1
        return block

    def set_name(self, block, name):
        if self.caching and block not in self.name_of:
            self.name_of[block] = name
            self.named.setdefault(name, OrderedDict())[block] = None

    def give_back(self, table):
        for block in reversed(table):
            self.refs[block] -= 1
            if self.refs[block] == 0:
                self.free[block] = None


class Sequence:
    def __init__(self, number, arrival, prompt, output, ids, id_tokens):
        self.number, self.arrival, self.prompt, self.output = number, arrival, prompt, output
        self.ids, self.id_tokens = ids or (), id_tokens
        self.computed = self.generated = 0  # generated: planned tokens
        self.table = []
        self.preempted = False
        self.last = None

    @property
    def known(self):
        return self.prompt + self.generated

    def names(self, count, size):
        """Of the first `count` blocks: shared where the ids are, else the sequence's own."""
        names = []
        for i in range(count):
            covered = tuple(self.ids[: -(-((i + 1) * size) // self.id_tokens)]) if self.id_tokens else ()
            shared = bool(covered) and len(covered) * self.id_tokens >= (i + 1) * size
            names.append(("shared", i, covered) if shared else ("own", i, self.number))
        return names


def simulate(settings, requests, times):
    """(first, last, steps, preemptions, hit tokens, queried tokens, gaps of stopped requests, recomputed)."""
    B = settings.block_size
    count = len(requests.prompt)
    chains = requests.chains or [None] * count
    all_sequences = [
        Sequence(i, requests.arrival_s[i], requests.prompt[i], requests.output[i], chains[i], requests.id_tokens)
        for i in range(count)
    ]
    if requests.clients is None:
        to_come = [(s.arrival, s.number) for s in all_sequences]
        unsent = []
    else:
        n = min(requests.clients, count)
        to_come, unsent = [(0.0, i) for i in range(n)], list(range(n, count))
    blocks = Blocks(settings.num_blocks, B, settings.prefix_caching)
    waiting, running = [], []
    first_come = settings.policy == "fcfs"
    urgency = [(0 if first_come or requests.priority is None else requests.priority[i], i) for i in range(count)]
    rows, ahead, give = 1, 0, lambda number: 1
    if settings.drafts is not None:
        rows, ahead, give = settings.drafts.rows, settings.drafts.lookahead, settings.drafts.giver()
    longest = settings.long_prefill_token_threshold or 10**9
    first, last = [None] * count, [None] * count
    steps = preemptions = hit = queried = recomputed = 0
    gaps = []
    in_flight = []  # (end, sequences that end with it)
    ends = [0.0]  # of the steps before
    planned = 0.0
    step = 0
    while to_come or waiting or running:
        now = max(planned, (ends[-2] if len(ends) > 1 else 0.0) if settings.lag else ends[-1])
        if not waiting and not running:
            now = max(now, min(to_come)[0])
        planned = now
        for _, done in [f for f in in_flight if f[0] <= now]:
            for s in done:
                if s in running:
                    running.remove(s)
                    blocks.give_back(s.table)
        in_flight = [f for f in in_flight if f[0] > now]
        for arrival in sorted(a for a in to_come if a[0] <= now):
            to_come.remove(arrival)
            waiting.append(all_sequences[arrival[1]])
        if not first_come:
            waiting.sort(key=lambda s: urgency[s.number])
        # plan
        budget = settings.max_num_batched_tokens
        plan = []
        stopped = False
        index, past = 0, set()
        while index < len(running):
            s = running[index]
            past.add(s.number)
            if s.generated == s.output:
                index += 1
                continue
            decodes = is_decode(s, s.computed)
            tokens = min(rows if decodes else min(s.known - s.computed, longest), budget)
            if tokens == 0:
                index += 1
                continue
            need = -(-(s.computed + tokens + decodes * ahead) // B) + settings.extra_blocks - len(s.table)
            itself = False
            while need > len(blocks.free):
                victim = running[-1] if first_come else max(running, key=lambda one: urgency[one.number])
                running.remove(victim)
                stopped = True
                for entry in [entry for entry in plan if entry[0] is victim]:
                    plan.remove(entry)
                    budget += entry[2]
                if victim is not s and victim.number in past:
                    index -= 1
                preemptions += 1
                blocks.give_back(victim.table)
                victim.table = []
                if victim.generated < victim.output:
                    recomputed += victim.computed
                    victim.computed = 0
                    victim.preempted = True
                    waiting.insert(0, victim)
                    if not first_come:
                        waiting.sort(key=lambda one: urgency[one.number])
                if victim is s:
                    itself = True
                    break
            if itself:
                break
            s.table += [blocks.new() for _ in range(need)]
            name_full(blocks, s, min(s.computed + tokens, s.known), B)
            plan.append((s, s.computed, tokens))
            budget -= tokens
            index += 1
        if stopped and not plan and now >= ends[-1]:
            continue  # an empty step takes no time; with one in flight, its results are awaited first
        late = plan_has_decodes(plan) and step % settings.prefill_schedule_interval
        while not stopped and not late and waiting and budget > 0 and len(running) < settings.max_num_seqs:
            s = waiting[0]
            names = s.names((s.known - 1) // B, B)
            found = blocks.find(names)
            idle = sum(blocks.refs[b] == 0 for b in found)
            have = len(found) * B
            tokens = min(s.known - have, budget, longest)
            asked = s.known if settings.whole_prompt_fits else have + tokens
            kept = settings.watermark_blocks if running else 0
            if -(-asked // B) + settings.extra_blocks - len(found) + idle > len(blocks.free) - kept:
                break
            waiting.pop(0)
            for block in found:
                blocks.hold(block)
            new = -(-(have + tokens) // B) + settings.extra_blocks - len(found)
            s.table = found + [blocks.new() for _ in range(new)]
            if not s.preempted:
                queried += s.known
                hit += have
            s.computed = have
            running.append(s)
            plan.append((s, have, tokens))
            budget -= tokens
            name_full(blocks, s, have + tokens, B)
        if not plan:
            if now < ends[-1]:
                ends.append(ends[-1])
                planned = ends[-1]
                continue
            if not to_come:
                assert not waiting, "a request can never run"
                break
            planned = min(to_come)[0]
            ends.append(planned)
            continue
        decodes = [(s, have) for s, have, _ in plan if is_decode(s, have)]
        chunks = [(have, tokens) for s, have, tokens in plan if not is_decode(s, have)]
        cached = sum(have for _, have in decodes)
        inside = [sum(min(have, w) for _, have in decodes) for w in times.windows]
        if chunks:
            cost = times.mixed(len(decodes), cached, inside, chunks)
        else:
            cost = times.decode(len(decodes), cached, inside, [0] * len(inside))[0]
        end = max(now, ends[-1]) + cost
        ended = []
        for s, have, tokens in plan:
            if is_decode(s, have):
                given = min(give(s.number), s.output - s.generated)
                s.computed = have + given
            else:
                given = 1
                s.computed = have + tokens
                if s.computed < s.known:
                    continue
            s.generated += given
            if first[s.number] is None:
                first[s.number] = end
            elif s.preempted:
                gaps.append(end - s.last)
            s.preempted = False
            s.last = end
            if s.generated == s.output:
                last[s.number] = end
                ended.append(s)
                if unsent:
                    to_come.append((end + requests.think_s, unsent.pop(0)))
        in_flight.append((end, ended))
        ends.append(end)
        steps += 1
        step += 1
    return {"first": first, "last": last, "steps": steps, "preemptions": preemptions, "hit": hit, "queried": queried,
            "gaps": gaps, "recomputed": recomputed}  # fmt: skip


def is_decode(sequence, have):
    """Whether all but the last generated token is in the cache, and it was not stopped since."""
    return sequence.generated > 0 and not sequence.preempted and have == sequence.known - 1


def plan_has_decodes(plan):
    return any(is_decode(s, have) for s, have, _ in plan)


def name_full(blocks, sequence, tokens, size):
    full = tokens // size
    for block, name in zip(sequence.table[:full], sequence.names(full, size), strict=True):
        blocks.set_name(block, name)
