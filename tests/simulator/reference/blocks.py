"""Blocks with numbers and sequences with tables of them: nothing is counted together, nothing is done ahead."""

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

    def idle(self, found):
        return sum(self.refs[block] == 0 for block in found)

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
    """One request as an engine keeps it."""

    def __init__(self, number, requests):
        self.number = number
        self.prompt, self.output = requests.prompt[number], requests.output[number]
        self.urgency = 0 if requests.priority is None else requests.priority[number]
        self.prefixes = _prefixes(requests, number)
        self.computed = self.generated = 0
        self.table = []
        self.preempted = self.restored = False  # awaits its first token since it was stopped
        self.last = None  # when it had its last token

    @property
    def known(self):
        return self.prompt + self.generated

    @property
    def decodes(self):
        """Whether all but the last generated token is in the cache, and it was not stopped since."""
        return self.generated > 0 and not self.preempted and self.computed == self.known - 1

    @property
    def ended(self):
        return self.generated == self.output

    def names(self, count, size):
        """Of the first `count` blocks: shared where the ids reach to their end, else the sequence's own."""
        names = []
        for i in range(count):
            ids = next((ids for end, ids in self.prefixes if end >= (i + 1) * size), None)
            names.append(("own", i, self.number) if ids is None else ("shared", i, ids))
        return names


def _prefixes(requests, number):
    """(tokens, ids) of every prefix that has a name."""
    chain = (requests.chains[number] if requests.chains else None) or ()
    prompt, known = requests.prompt[number], requests.prompt[number] + requests.output[number]
    of_prompt = requests.id_tokens and (len(chain) - 1) * requests.id_tokens < prompt
    found, reached = [], 0
    for i, one in enumerate(chain):
        reached += requests.id_tokens or requests.sizes[one]
        found.append((min(reached, prompt if of_prompt else known), tuple(chain[: i + 1])))
    return found
