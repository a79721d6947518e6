"""The environment that tests need, and fixtures that several test modules share."""

from __future__ import annotations

import ast
import atexit
import inspect
import os
import re
import resource
import shutil
import signal
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from loads import Nginx


def _settle() -> None:
    """Sets signals, umask, locale, time zone and descriptors as in a fresh login, also under nohup.

    Tests of what the program does with inherited settings set them for a process of its own.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    of_python = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT}  # it ignores the first two on purpose
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP} - of_python:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(0o022)
    for key in [key for key in os.environ if key == "LANGUAGE" or key.startswith("LC_")]:
        del os.environ[key]
    os.environ |= {"LANG": "C.UTF-8", "TZ": "UTC"}
    time.tzset()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096 if hard == resource.RLIM_INFINITY else min(4096, hard), hard))


_settle()


def _keep_stores_apart() -> None:
    """Sets a data folder of this process's own, whatever the environment names.

    Many commands read or write the default store: the user's may be of another version, may hold anything, and is not
    for tests to write into.
    """
    folder = tempfile.mkdtemp(prefix="dragstrip-data-")
    Path(folder).chmod(0o777)  # some tests run as another user
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.pop("DRAGSTRIP_STORE", None)
    os.environ["XDG_DATA_HOME"] = folder


_keep_stores_apart()


def _reach_private_programs() -> None:
    """Puts nginx on PATH where `make test` installed it as a wheel, because its user is not root."""
    if shutil.which("nginx") is None:
        from dragstrip import contender
        from dragstrip.contender.discovery import find_programs

        if nginx := find_programs(contender.find("nginx-return")).get("nginx"):
            os.environ["PATH"] = os.pathsep.join((os.environ["PATH"], str(nginx.parent)))


_reach_private_programs()

# Time never decides a test, a property's neither: other programs may have the cores.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

#: What a test wants, from the most to the least; `pyproject.toml` says what each means.
WANTS = ("soak", "release", "contenders", "live", "unit")

#: Files that take longest by the clock; they begin first, so that no process is left alone with one at the end.
LONGEST = (
    *("test_interrupt.py", "test_race.py", "test_diff.py", "test_database.py", "test_outputs.py", "test_why.py"),
    *("test_fleet.py", "test_suites_database.py", "test_site.py", "test_claims.py", "test_race_tls.py"),
)


#: A file of tests that passed in fresh roots (``tests/fresh.py``), a line each: `make check` does not repeat them.
PASSED_ELSEWHERE = "DRAGSTRIP_PASSED"


class _Passed:
    """Notes in pytest's cache which tests of a run passed: ``passed/unit``, by the first word of its -m."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.passed = config, list[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        # pytest has no cache with -p no:cacheprovider.
        if (chosen := self.config.getoption("-m")) and hasattr(self.config, "cache"):
            self.config.cache.set(f"passed/{chosen.split()[0]}", self.passed)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Passed(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test without its own mark gets its folder's: live, contenders, or unit for all others; statistics: thorough.

    Raises:
        pytest.UsageError: a mark is not in the text of its file, so the Makefile would not find the test.
    """
    texts: dict[Path, str] = {}
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        for mark in item.iter_markers():
            if mark.name in ("release", "contenders", "live", "thorough") and mark.name != folder:
                if item.path not in texts:
                    texts[item.path] = item.path.read_text(encoding="utf-8")
                if f"mark.{mark.name}" not in texts[item.path]:
                    raise pytest.UsageError(f"{item.nodeid}: write pytest.mark.{mark.name} in {item.path.name} itself")
        if not any(item.get_closest_marker(name) for name in WANTS):
            item.add_marker(folder if folder in WANTS else "unit")
        if folder == "statistics":
            item.add_marker("thorough")
    if listed := os.environ.get(PASSED_ELSEWHERE):
        passed = frozenset(Path(listed).read_text(encoding="utf-8").splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@cache
def _missing(name: str) -> str:
    """Why a shipped contender can't run here; "": it can."""
    from dragstrip import contender

    state = contender.check(contender.entry(name))
    return f"{name} is not installed: {state.reason}" if isinstance(state, contender.Missing) else ""


@cache
def _shipped() -> frozenset[str]:
    from dragstrip.contender.fields import SHIPPED

    return frozenset(path.name for path in SHIPPED.iterdir())


@cache
def _default() -> frozenset[str]:
    from dragstrip import contender

    return frozenset(contender.line_up("default").names)


@cache
def _contenders_in(function: Callable[..., object]) -> frozenset[str]:
    """Shipped contenders that a function names in its strings, its docstring aside, and in constants that it uses."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return frozenset()
    body = getattr(tree, "body", [])
    documented = bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    texts = []
    for node in (part for statement in body[documented:] for part in ast.walk(statement)):
        if isinstance(node, ast.Constant):
            texts.append(node.value)
        elif isinstance(node, ast.Name):
            used = getattr(inspect.getmodule(function), node.id, None)
            texts += used if isinstance(used, (tuple, list, dict, frozenset)) else [used]
    return _shipped() & {word for text in texts if isinstance(text, str) for word in re.split(r"[\s,=]+", text)}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a live test whose contender is not installed, with the reason that Dragstrip itself gives.

    Root has all of the default line-up, which `make test` installs: there, one that is missing fails its tests.
    """
    if not isinstance(item, pytest.Function) or not any(
        map(item.get_closest_marker, ("live", "thorough", "contenders"))
    ):
        return
    fixtures = item._fixtureinfo.name2fixturedefs
    functions = [item.function, *(defined.func for name in fixtures for defined in fixtures[name])]
    given = frozenset(map(str, item.callspec.params.values())) if hasattr(item, "callspec") else frozenset()
    for name in sorted((_shipped() & given).union(*map(_contenders_in, functions))):
        if (why := _missing(name)) and not (os.geteuid() == 0 and name in _default()):
            pytest.skip(why)


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Nginx]:
    """A real nginx with a log, started for one test and ended with it."""
    from loads import Nginx

    server = Nginx(tmp_path)
    yield server
    server.ended()
