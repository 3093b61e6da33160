"""Which start of which engine a line of a log belongs to.

A log may hold several starts, one after another or mixed: restarts, two servers in one compose log, two engines on one
console. Lines are told apart by the container that prefixes them, by the engine whose wording they are, by the process
that they name, and by what cannot be of one start: a second banner, weights that are loaded after the cache is there,
another figure where this process has printed one. What could be of either start is of none.

Source: a judgement on published logs of several starts; the table of phases stands in `logs.toml`
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvcalc.engines.logs.facts import LogCache, LogLine, Refusal, Value
from kvcalc.engines.logs.patterns import Pattern

_STREAM = re.compile(r"([\w.-]{1,60})\s{1,20}\| ")  # docker compose
_PROCESS = re.compile(r"\(([A-Za-z]\w{0,40}) pid=(\d{1,9})\)")
_FORMAL = re.compile(r"\w{2,60}\.py:\d{1,5}\]")  # the logger's own form
_CAPACITY = {"pool", "tokens", "blocks", "needed", "weights", "consumed"}
_ONCE = {"pool", "tokens", "blocks", "concurrency", "needed"}  # printed once by a process of a start
_IDENTITY = ("version", "model")
SAME_BANNER = 60  # lines between the parts of one banner
MANY = "VllmWorker"  # a name that every worker of older versions has
UNLABELLED = {"trtllm": 0.03}  # its ranks print the same line without a name, with pools that differ by as much


@dataclass(kw_only=True)
class Start:
    """What was collected of one start."""

    engine: str | None = None
    marked: bool = False  # its beginning is in the text
    first: int = 0  # lines
    last: int = 0
    marks: list[tuple[int, str | None, str | None]] = field(default_factory=list)  # line, process, version
    phases: dict[str | None, int] = field(default_factory=dict)  # how far each process has come
    formal: bool = False  # lines of the engine's logger are among it
    labelled: bool | None = None  # whether its lines name their process
    processes: dict[str, str] = field(default_factory=dict)  # name → pid
    printed: dict[tuple[str, str, str | None], Value] = field(default_factory=dict)
    facts: dict[str, Value] = field(default_factory=dict)
    settings: dict[str, Value] = field(default_factory=dict)
    buffers: dict[tuple[str, str], int] = field(default_factory=dict)
    caches: list[tuple[str | None, LogCache]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    votes: Counter[str] = field(default_factory=Counter)

    @property
    def says_memory(self) -> bool:
        return bool(_CAPACITY & self.facts.keys() or self.caches or self.refusals or self.buffers)

    @property
    def phase(self) -> int:
        return max(self.phases.values(), default=0)

    @property
    def says_anything(self) -> bool:
        return bool(self.votes or self.settings or self.says_memory)


Found = Sequence[tuple[Pattern, Mapping[str, Value]]]


def stream_of(line: str) -> tuple[str, str]:
    """The container that a line is prefixed with ("" for none), and the rest of the line."""
    match = _STREAM.match(line)
    return (match[1], line[match.end() :]) if match else ("", line)


class Heard(NamedTuple):
    """A line of an engine, as far as it tells whose it is."""

    engine: str
    number: int
    process: str | None
    formal: bool  # the engine's logger wrote it; a report's lines may stand in any order
    found: Found
    identity: Mapping[str, Value]


class Starts:
    """The starts of one stream, in the order of their first lines."""

    def __init__(self, mixed: frozenset[str | None] = frozenset()) -> None:
        self.all: list[Start] = []
        self.aside = 0  # lines that could be of several starts
        self._of_process: dict[tuple[str | None, str], Start] = {}
        self.mixed: set[str | None] = set(mixed)  # engines whose starts overlap, as far as the lines have shown

    def of_line(
        self, line: str, number: int, engine: str | None, found: Found, settings: Mapping[str, Value]
    ) -> Start | None:
        """The start that a line belongs to; None where that cannot be said."""
        if engine is None:
            return self._touch(self._anyones(number), number)
        identity = {name: value for _, values in found for name, value in values.items() if name in _IDENTITY}
        identity |= {name: settings[name] for name in _IDENTITY if name in settings}
        formal = _FORMAL.search(line[:300]) is not None
        heard = Heard(engine, number, _process(line), formal, found, identity)
        here = self._chosen(heard, self._open(heard), bool(settings))
        if here is None:
            self.aside += 1
            return None
        here = self._unlike(here, heard)
        self._keep(here, heard)
        return self._touch(here, number)

    def _chosen(self, heard: Heard, here: Start, settings: bool) -> Start | None:
        engine, process, found = heard.engine, heard.process, heard.found
        bound = self._of_process.get((engine, process)) if process else None
        if bound is not None and bound is not here and _repeats(bound, process, found):
            bound = None  # a restart in the same container has the same process ids
        if any(pattern.start for pattern, _ in found):
            return self._banner(here, heard)
        if heard.identity:
            return self._of_identity(here, bound, heard)
        if bound is not None:
            if bound is not here and here.marked and not settings:
                self.mixed.add(engine)
            return bound
        if engine in self.mixed and found:
            return None
        if process and _pid(process) != here.processes.get(_name(process), _pid(process)):
            if len([start for start in self.all if start.engine == engine]) > 1:
                self.mixed.add(engine)
            return self._new(engine, heard.number)
        return here

    def _keep(self, here: Start, heard: Heard) -> None:
        """What later lines are told apart by."""
        process = heard.process
        here.formal = here.formal or heard.formal
        if process:
            self._of_process[heard.engine, process] = here
            if MANY not in process:
                here.processes[_name(process)] = _pid(process)
        for pattern, values in heard.found:
            here.phases[process] = max(here.phases.get(process, 0), pattern.phase)
            here.printed |= {(pattern.key, fact, process): value for fact, value in values.items()}

    def _touch(self, start: Start, number: int) -> Start:
        start.last = number
        return start

    def _new(self, engine: str | None, number: int) -> Start:
        self.all.append(Start(engine=engine, first=number, last=number))
        return self.all[-1]

    def _anyones(self, number: int) -> Start:
        """A line of no engine's own belongs to what was said last."""
        return max(self.all, key=lambda start: start.last) if self.all else self._new(None, number)

    def _open(self, heard: Heard) -> Start:
        """The last start of an engine, of those that name their processes or those that do not.

        What was said before any engine's line becomes its own.
        """
        labelled = heard.process is not None if heard.formal else None
        for start in reversed(self.all):
            if start.engine == heard.engine and (labelled is None or start.labelled in (None, labelled)):
                start.labelled = labelled if start.labelled is None else start.labelled
                return start
        last = self.all[-1] if self.all else None
        if last is not None and last.engine is None:
            last.engine = heard.engine
            return last
        found = self._new(heard.engine, heard.number)
        found.labelled = labelled
        return found

    def _banner(self, here: Start, heard: Heard) -> Start:
        """The banner's parts stand close together and are of one process and version; anything else is a new start."""
        version = heard.identity.get("version")
        same = not here.says_memory and all(
            heard.number - line <= SAME_BANNER
            and heard.process == other
            and (version is None or said is None or str(version) == said)
            for line, other, said in here.marks
        )
        if not same or (not here.marks and (here.phase or here.votes or here.formal)):
            here = self._new(here.engine, heard.number)
        here.marked = True
        here.marks.append((heard.number, heard.process, None if version is None else str(version)))
        return here

    def _of_identity(self, here: Start, bound: Start | None, heard: Heard) -> Start:
        """A line that names version or model belongs to the last start that says nothing else of them."""
        if bound is not None and not _repeats(bound, heard.process, heard.found):
            return bound
        for start in reversed(self.all):
            late = heard.formal and start.phase and not _agrees(start, heard.identity, known=True)
            if start.engine == heard.engine and _agrees(start, heard.identity) and not late:
                if start is not here and here.marked:
                    self.mixed.add(heard.engine)
                return start
        return here if not here.marks and not here.phase else self._new(heard.engine, heard.number)

    def _unlike(self, here: Start, heard: Heard) -> Start:
        """A new start where a line cannot be of this one."""
        process, far = heard.process, here.phases.get(heard.process, 0)
        near = UNLABELLED.get(heard.engine, 0.0)
        back = heard.formal and any(0 < pattern.phase < far and pattern.opens for pattern, _ in heard.found)
        again = any(
            fact in _ONCE and _other(here.printed.get((pattern.key, fact, process)), value, near)
            for pattern, values in heard.found
            if not (pattern.buffer or pattern.cache)  # of these, a start has several
            for fact, value in values.items()
        )
        if not back and not again:
            return here
        # Had the first start gone no further when the second figure came, lines of both may follow.
        if again and all(pattern.phase >= far for pattern, _ in heard.found):
            self.mixed.add(heard.engine)
        return self._new(heard.engine, heard.number)


def _process(line: str) -> str | None:
    match = _PROCESS.search(line[:200])
    return f"{match[1]} {match[2]}" if match else None


def _repeats(start: Start, process: str | None, found: Found) -> bool:
    """Whether this process has printed such a line in this start."""
    return any((pattern.key, name, process) in start.printed for pattern, values in found for name in values)


def _name(process: str) -> str:
    return process.partition(" ")[0]


def _pid(process: str) -> str:
    return process.partition(" ")[2]


def _agrees(start: Start, identity: Mapping[str, Value], known: bool = False) -> bool:
    """Whether nothing of an identity contradicts what a start has said; `known`: it must have said some of it."""
    said = {"version": start.facts.get("version"), "model": start.settings.get("model", start.facts.get("model"))}
    pairs = [(said[name], value) for name, value in identity.items() if said[name] is not None]
    return (bool(pairs) or not known) and all(str(old) == str(value) for old, value in pairs)


def _other(old: Value | None, new: Value, near: float) -> bool:
    if old is None or old == new:
        return False
    if near and isinstance(old, int | float) and isinstance(new, int | float) and old:
        return abs(new / old - 1) > near
    return True
