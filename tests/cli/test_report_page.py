"""The page of `kvcalc report`, its text read here and its figures moved in a real Chromium, where there is one."""

import json
import re
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.app import run
from tests.cli.conftest import Cli, assert_refused

LINE = "report llama-3-8b --gpu h100-sxm --price 2 --tpot 30ms"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FIGURES = ["explorer", "schedules", "pool", "sampling", "rounds", "prompts"]
UNITS = {
    "GiB": 2**30, "KiB": 2**10, "MiB": 2**20, "GB": 1e9, "ms": 1e-3, "µs": 1e-6, "%": 0.01, "s": 1, "k": 1e3,
}  # fmt: skip
SHOWN = re.compile(r"(?<![\w.])\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?(?: ?(GiB|KiB|MiB|GB|ms|µs|%|s)\b)?")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "page.html"
    assert run([*LINE.split(), "-o", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def envelope(page: Path) -> Any:
    """The JSON for the same inputs."""
    assert run([*LINE.split(), "-o", str(page.with_suffix(".json"))]) == 0
    return json.loads(page.with_suffix(".json").read_text())


class Reader(HTMLParser):
    """The text that a reader sees, piece by piece; commands, scripts and styles aside."""

    HIDDEN = ("script", "style", "title", "pre")

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.pieces: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "input", "br"):
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not set(self.HIDDEN) & set(self.inside) and data.strip():
            self.pieces.append(data.strip())


def numbers_and_texts(value: Any) -> Iterator[float | str]:
    """Everything that a JSON holds; of its texts also the numbers in them."""
    if isinstance(value, dict):
        for one in (*value, *value.values()):
            yield from numbers_and_texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from numbers_and_texts(one)
    elif isinstance(value, str):
        yield value
        for found in re.findall(r"\d[\d,]*(?:\.\d+)?", value):
            yield float(found.replace(",", ""))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def shown_numbers(text: str) -> Iterator[tuple[str, float, float]]:
    """(as written, value in base units, half of its last digit)"""
    for match in SHOWN.finditer(text):
        bare = match[0].removesuffix(match[1] or "").strip().replace(",", "").replace("_", "")
        scale = UNITS[match[1]] if match[1] else 1.0
        mantissa = bare.partition("e")[0]
        digits = len(mantissa.partition(".")[2])
        power = float("1e" + bare.partition("e")[2]) if "e" in bare else 1.0
        yield match[0], float(bare) * scale, 0.5 * 10**-digits * scale * power


def figures_of(page: Path) -> dict[str, Any]:
    found = re.search(r'id="figure-data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def test_it_is_one_small_file_that_asks_nothing_of_the_network(page: Path) -> None:
    text = page.read_text()
    assert len(text.encode()) < 1_300_000
    bare = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.findall(r"""(?:src|srcset|action|poster|data)\s*=\s*["']?http""", bare)
    assert "<link" not in bare
    assert "@import" not in bare
    assert "url(" not in bare


def test_every_row_of_a_figure_is_in_the_json(envelope: Any, page: Path) -> None:
    """Not one number is worked out by the page: each is, to the last bit, in the JSON for the same inputs."""
    known = {one for one in numbers_and_texts(envelope) if isinstance(one, float)}
    figures = figures_of(page)
    assert list(figures) == FIGURES
    for name, figure in figures.items():
        count = 0
        for rows in (figure["rows"], figure["numbers"]):
            places = [i for i, column in enumerate(rows["columns"]) if column != "moment"]  # counts the frames
            for row in rows["rows"]:
                for one in numbers_and_texts([row[i] for i in places]):
                    if isinstance(one, float):
                        assert one in known, (name, one)
                        count += 1
        assert count > 50, name


def test_every_number_of_the_text_is_in_the_json(envelope: Any, page: Path) -> None:
    """As written, in its unit: some number of the JSON rounds to it, or a text of the JSON has it."""
    values = list(numbers_and_texts(envelope))
    texts = " ".join(one for one in values if isinstance(one, str))
    numbers = sorted(one for one in values if isinstance(one, float))
    scaled = sorted({one * factor for one in numbers for factor in (1, 1e3, 1e-9, 100, 2**-30)})
    reader = Reader()
    reader.feed(page.read_text())
    checked = 0
    for piece in reader.pieces:
        if piece in texts:
            continue
        for written, value, half in shown_numbers(piece):
            checked += 1
            near = any(abs(one - value) <= half * 1.02 + 1e-12 for one in _around(scaled, value, half))
            assert near or written in texts or _counts(written, piece), (written, piece)
    assert checked > 300


def _around(ordered: list[float], value: float, half: float) -> list[float]:
    return ordered[bisect_left(ordered, value - 2 * half) : bisect_right(ordered, value + 2 * half)]


def _counts(written: str, piece: str) -> bool:
    """What numbers the frames: `set 1`."""
    return re.fullmatch(r"(?:set )?\d", written if written == piece else piece) is not None


@pytest.mark.parametrize("more", ["", " -o page.txt.svg", " --format csv -o a.csv"])
def test_what_it_does_not_write(cli: Cli, more: str) -> None:
    assert_refused(cli(LINE + more))


def test_text_of_a_model_is_escaped(cli: Cli, tmp_path: Path) -> None:
    assert cli("report", "<b>nothing</b>", "--gpu", "h100-sxm", "-o", f"{tmp_path}/a.html").code == 2
    assert not list(tmp_path.iterdir())


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as player:
        found = player.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield found
        found.close()


class Open:
    """A page in a window, with everything that went wrong in it."""

    def __init__(self, browser: Any, page: Path, width: int, scheme: str) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, reduced_motion="reduce"
        )
        self.tab = self.context.new_page()
        self.faults: list[str] = []
        self.tab.on("pageerror", lambda error: self.faults.append(str(error)))
        self.tab.on(
            "console", lambda said: self.faults.append(said.text) if said.type in ("error", "warning") else None
        )
        self.tab.on("request", lambda asked: self.faults.append(asked.url) if "page.html" not in asked.url else None)
        self.tab.goto(page.as_uri())
        self.tab.wait_for_function(f"document.querySelectorAll('figure[data-drawn]').length === {len(FIGURES)}")

    def settled(self) -> None:
        """Two frames later the pictures show what was set."""
        self.tab.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def picture(self, figure: str) -> str:
        """Everything that a figure shows."""
        self.settled()
        return str(self.tab.evaluate(
            "id => { const root = document.getElementById(id); return [...root.querySelectorAll('svg')]"
            ".map(one => one.outerHTML).join('') + root.querySelector('tbody').textContent"
            " + (root.querySelector('.readout')?.textContent ?? '') }", figure))  # fmt: skip


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_a_fault_and_without_overflow(browser: Any, page: Path, width: int, scheme: str) -> None:
    opened = Open(browser, page, width, scheme)
    opened.settled()
    wide = opened.tab.evaluate(
        "() => [document.documentElement.scrollWidth, ...[...document.querySelectorAll('.view svg')]"
        ".map(one => one.getBoundingClientRect().right)]"
    )
    background = opened.tab.evaluate("() => getComputedStyle(document.body).backgroundColor")
    drawn = opened.tab.evaluate("() => document.querySelectorAll('.view svg path, .view svg rect').length")
    opened.context.close()
    assert opened.faults == []
    assert max(wide) <= width
    assert (
        sum(map(int, re.findall(r"\d+", background)[:3])) < 384
        if scheme == "dark"
        else background == "rgb(255, 255, 255)"
    )
    assert drawn > 200


@pytest.mark.browser
def test_each_control_moves_its_figure_by_keyboard(browser: Any, page: Path) -> None:
    opened = Open(browser, page, 1280, "light")
    figures = figures_of(page)
    for name, figure in figures.items():
        for control in figure["controls"]:
            before = opened.picture(name)
            place = opened.tab.locator(f'#{name} [name="{control["name"]}"]')
            place.focus()
            forward = control["at"] < len(control["values"]) - 1
            place.press("ArrowDown" if place.evaluate("one => one.tagName") == "SELECT" and forward else
                        "ArrowRight" if forward else "ArrowLeft")  # fmt: skip
            assert opened.picture(name) != before, (name, control["name"])
    opened.context.close()
    assert opened.faults == []


@pytest.mark.browser
def test_what_it_shows_is_what_the_command_prints(browser: Any, page: Path, cli: Cli) -> None:
    """Batch 128 of the explorer, by keyboard, beside `kvcalc curve`."""
    point = cli("curve llama-3-8b --gpu h100-sxm --price 2 --context 2048 --batch 128 --json").result["points"][0]
    opened = Open(browser, page, 1280, "light")
    opened.tab.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")
    opened.tab.locator('#explorer [name="batch"]').press("ArrowRight")
    opened.settled()
    shown = opened.tab.locator("#explorer .readout b").all_text_contents()
    untouched = [opened.tab.locator(f"#{name} tbody").inner_text().split() for name in FIGURES[1:]]
    label = opened.tab.locator("#explorer output").first.text_content()
    table = opened.tab.locator("#explorer tbody tr").count()
    opened.context.close()
    assert label == "128"
    assert float(shown[0]) == pytest.approx(point["estimate_s"]["value"] * 1e3, rel=5e-3)
    assert float(shown[1].replace(",", "")) == pytest.approx(point["output_tokens_per_s"], rel=5e-3)
    assert table == 11  # a row a batch
    for name, text in zip(FIGURES[1:], untouched, strict=True):  # the page without its script has the same
        written = re.search(rf'<figure id="{name}">.*?<tbody>(.*?)</tbody>', page.read_text(), re.DOTALL)
        assert written is not None
        assert re.sub(r"<[^>]*>", " ", written[1]).split() == text, name


@pytest.mark.browser
def test_everything_that_can_be_used_has_a_name(browser: Any, page: Path) -> None:
    opened = Open(browser, page, 390, "light")
    nameless = opened.tab.evaluate(
        "() => [...document.querySelectorAll('input, select')].filter(one => !one.labels.length"
        " || !one.labels[0].textContent.trim()).length + [...document.querySelectorAll('.view')]"
        ".filter(one => !one.getAttribute('aria-label')).length"
    )
    tables = opened.tab.evaluate(
        "() => [...document.querySelectorAll('figure')].filter(one => !one.querySelector('tbody tr')).length"
    )
    opened.context.close()
    assert nameless == tables == 0
