"""What every test shares: no network, no colour, 80 columns, and no silent skips in CI."""

import importlib.util

import pytest
from hypothesis import settings

# A slow machine is no wrong answer: property tests have no deadline.
settings.register_profile("kvcalc", deadline=None)
settings.load_profile("kvcalc")

HAS_TORCH = importlib.util.find_spec("torch") is not None
# Without the extra `run` the executor's tests are not part of the suite.
collect_ignore = [] if HAS_TORCH else ["executor"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail when a test not marked gpu is skipped")


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "KVCALC_DEBUG", "HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--no-skips"):
        return
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "gpu" not in report.keywords]
    for report in skipped:
        terminalreporter.write_line(f"SKIPPED (not allowed here): {report.nodeid}")
    passed = len(terminalreporter.stats.get("passed", []))
    terminalreporter.write_line(f"{passed} tests ran, {len(skipped)} skipped that may not be")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.getoption("--no-skips"):
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter and any("gpu" not in report.keywords for report in reporter.stats.get("skipped", [])):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
