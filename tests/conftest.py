"""What every test shares: no network, no colour, 80 columns, and no silent skips in CI."""

import importlib.util
import os

import pytest
from hypothesis import settings

# A slow machine is no wrong answer: property tests have no deadline. `--hypothesis-profile thorough` tries more.
settings.register_profile("kvcalc", deadline=None, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("kvcalc")

# Commands that tests start in a process of their own compile kvcalc once, not each anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

HAS_TORCH = importlib.util.find_spec("torch") is not None
# Without the extra `run` the executor's tests are not part of the suite.
collect_ignore = [] if HAS_TORCH else ["executor"]


MAY_SKIP = {"gpu", "browser"}  # marks of what is not on every machine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail when a test not marked gpu or browser is skipped")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """The whole suite takes every core, where pytest-xdist is installed; tests that are named run in this process."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    inside = "PYTEST_XDIST_WORKER" in os.environ  # a worker starts no workers
    if whole and not inside and getattr(config.option, "numprocesses", 0) is None:
        config.option.numprocesses = "auto"
        config.option.dist = "worksteal"


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "KVCALC_DEBUG", "HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def _refused(reporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    """Skipped tests that may not be."""
    return [report for report in reporter.stats.get("skipped", []) if not MAY_SKIP & set(report.keywords)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--no-skips"):
        return
    passed = [report for report in terminalreporter.stats.get("passed", []) if report.when == "call"]
    marked = {mark: sum(mark in report.keywords for report in passed) for mark in sorted(MAY_SKIP)}
    skipped = _refused(terminalreporter)
    for report in skipped:
        terminalreporter.write_line(f"SKIPPED (not allowed here): {report.nodeid}")
    ran = ", ".join(f"{count} with a {mark}" for mark, count in marked.items())
    terminalreporter.write_line(f"{len(passed)} tests ran ({ran}), {len(skipped)} skipped that may not be")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.getoption("--no-skips"):
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter and _refused(reporter):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
