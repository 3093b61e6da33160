"""A shell's text → words, as bash would split it, but that what people paste survives: Windows paths, placeholders."""

from typing import NamedTuple

# After a backslash outside quotes these stand for themselves; before a letter it is a Windows path, and stays.
_ESCAPED = set(" \t'\"\\$`#&;|()<>{}[]*?!~,=")
_LINE_ENDS = ("\\\r\n", "\\\n", "^\r\n", "^\n", "`\r\n", "`\n")
_OPERATORS = ("&&", "||", ";;", ";", "|", "&", "\n")
_PROMPTS = ("$", "%", ">", "❯", "PS>")
# What word processors and web pages make of `--` and of quotes.
_DASHES = "–—‒―"
_CLOSING = {"'": "'", '"': '"', "“": "”", "„": "”", "‘": "’"}


class _Word(NamedTuple):
    text: str
    quoted: bool


class _Reader:
    """Where the splitting stands in the text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.word: list[str] | None = None
        self.quoted = False  # some of the word
        self.words: list[_Word] = []
        self.commands: list[list[_Word]] = []

    def add(self, piece: str) -> None:
        self.word = [*(self.word or []), piece]

    def end_word(self) -> None:
        if self.word is not None:
            self.words.append(_Word("".join(self.word), self.quoted))
            self.word, self.quoted = None, False

    def end_command(self) -> None:
        self.end_word()
        if self.words:
            self.commands.append(self.words)
            self.words = []


def split(text: str) -> list[list[str]]:
    """The commands of a text, each as its words.

    Comments, prompts and redirections are left out; a line that begins with `-` goes on with the command above it.

    >>> split("TP=2 vllm serve m -tp $TP \\\\\\n  --port 8000  # web\\necho done")
    [['TP=2', 'vllm', 'serve', 'm', '-tp', '$TP', '--port', '8000'], ['echo', 'done']]
    >>> split('llama-server.exe -m "C:\\\\models\\\\a.gguf" --mmproj C:\\\\b.gguf --api-key <key>')[0][2:]
    ['C:\\\\models\\\\a.gguf', '--mmproj', 'C:\\\\b.gguf', '--api-key', '<key>']
    """
    for ending in _LINE_ENDS:
        text = text.replace(ending, " ")
    reader = _Reader(text)
    while reader.at < len(text):
        _step(reader, text[reader.at])
    reader.end_command()
    return [plain for words in reader.commands if (plain := _plain(words))]


def _step(reader: _Reader, letter: str) -> None:
    text, at = reader.text, reader.at
    if letter in _CLOSING:
        _quoted(reader, letter)
    elif letter == "\\":
        following = text[at + 1 : at + 2]
        reader.add(following if following in _ESCAPED else letter + following)
        reader.at += 2
    elif letter == "`" or text.startswith("$(", at):
        reader.add(_substituted(reader))
    elif letter == "\n" and text[at:].lstrip().startswith("-"):
        reader.end_word()
        reader.at += 1
    elif letter == "&" and text[at - 1 : at] == ">":  # 2>&1
        reader.add(letter)
        reader.at += 1
    elif operator := next((one for one in _OPERATORS if text.startswith(one, at)), None):
        reader.end_command()
        reader.at += len(operator)
    elif letter == "#" and reader.word is None:
        end = text.find("\n", at)
        reader.at = len(text) if end < 0 else end
    elif letter.isspace():
        reader.end_word()
        reader.at += 1
    else:
        typeset = letter in _DASHES and reader.word is None and text[at + 1 : at + 2].isalpha()
        reader.add("--" if typeset else letter)
        reader.at += 1


def _substituted(reader: _Reader) -> str:
    """A command whose output stands here, as it is written; Kubernetes' `$(NAME)` looks the same."""
    text, start = reader.text, reader.at
    at, depth = start + (1 if text[start] == "`" else 2), 1
    while at < len(text) and depth:
        if text[start] == "`":
            depth -= text[at] == "`"
        else:
            depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    reader.at = at
    return text[start:at]


def _quoted(reader: _Reader, quote: str) -> None:
    """To the closing quote; one that never comes leaves the rest as it is."""
    text, at, closing = reader.text, reader.at + 1, _CLOSING[quote]
    reader.add("")
    reader.quoted = True
    while at < len(text) and text[at] != closing:
        if quote == '"' and text[at] == "\\" and text[at + 1 : at + 2] in ('"', "\\", "$", "`"):
            at += 1
        reader.add(text[at])
        at += 1
    reader.at = at + 1


def _plain(words: list[_Word]) -> list[str]:
    """Without a prompt, `2>&1`, `> file` and `< file`, which are the shell's; `<your-key>` is a placeholder."""
    kept: list[str] = []
    skip = False
    for word in words:
        sign = "" if word.quoted else word.text.lstrip("0123456789&")
        alone = sign in (">", ">>", "<", "<<")
        if skip:
            skip = False
        elif alone or (sign.startswith((">", "<")) and not sign.endswith(">")):
            skip = alone
        elif kept or word.quoted or word.text not in _PROMPTS:
            kept.append(word.text)
    return kept


class Assignment(NamedTuple):
    """NAME=VALUE in front of a command, or behind `-e`."""

    name: str
    value: str


def assignment(word: str) -> Assignment | None:
    """
    >>> assignment("TP=8"), assignment("--tp=8")
    (Assignment(name='TP', value='8'), None)
    """
    name, sign, value = word.partition("=")
    return Assignment(name, value) if sign and name.isidentifier() and name.isascii() else None
