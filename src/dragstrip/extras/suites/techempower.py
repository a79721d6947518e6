"""Reads frameworks of TechEmpower's FrameworkBenchmarks: `benchmark_config.json` with one or several tests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dragstrip import paths
from dragstrip.extras.suites.suite_entries import MAX_BYTES, Cause, LeftOut, ServedTest, SuiteEntry, refused

CONFIG = "benchmark_config.json"

_SUITE = "tfb"

#: The suite's tests by the key of their URL: our workload, and whether the test needs the database.
TESTS = {
    "json_url": ("tfb-json", False),
    "plaintext_url": ("tfb-plaintext", False),
    "db_url": ("tfb-db", True),
    "query_url": ("tfb-queries", True),
    "fortune_url": ("tfb-fortunes", True),
    "update_url": ("tfb-updates", True),
    "cached_query_url": ("tfb-cached", True),
}

#: Workloads whose responses are JSON; each framework writes it in its own form.
_JSON = frozenset(("tfb-json", "tfb-db", "tfb-queries", "tfb-updates", "tfb-cached"))

#: The only database that Dragstrip has, as the suite names it.
_DATABASE = "postgres"

#: Others, as their makers write them.
_DATABASES = {"mysql": "MySQL", "mongodb": "MongoDB", "none": ""}

#: Of several causes, the first of these is the test's.
_PRECEDENCE = (Cause.NO_WORKLOAD, Cause.DATABASE, Cause.UNREADABLE)

#: A path that a definition may have.
_PATH = re.compile(r"/[!-z|~]*")

#: The files of some entries have null for a missing text.
_Text = Annotated[str, BeforeValidator(lambda given: given or "")]


class _SuiteTest(BaseModel):
    """The settings of a test; its other keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    port: Annotated[int, Field(ge=1, le=65_535)]  # some entries have it as a text
    language: _Text = ""
    webserver: _Text = ""
    platform: _Text = ""
    framework: _Text = ""
    approach: _Text = ""
    classification: _Text = ""
    orm: _Text = ""
    database: _Text = ""
    display_name: _Text = ""
    dockerfile: _Text = ""
    docker_cmd: _Text = ""
    tags: Annotated[tuple[str, ...], BeforeValidator(lambda given: given or ())] = ()
    json_url: _Text = ""
    plaintext_url: _Text = ""
    db_url: _Text = ""
    query_url: _Text = ""
    fortune_url: _Text = ""
    update_url: _Text = ""
    cached_query_url: _Text = ""


class _Benchmark(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    framework: str = Field(min_length=1)
    tests: tuple[dict[str, dict[str, object]], ...]


def read(folder: Path, workloads: Collection[str]) -> Iterator[SuiteEntry | LeftOut]:
    """The tests of a framework's folder: each as an entry, or with the cause why it is left out.

    Args:
        workloads: the names of the workloads that exist.
    """
    name = f"{_SUITE}:{folder.name.lower()}"
    try:
        config = _Benchmark.model_validate_json(paths.read(folder / CONFIG, MAX_BYTES))
    except ValueError as error:
        yield LeftOut(name, Cause.UNREADABLE, f"{CONFIG}: {fault_of(error)}")
        return
    for variants in config.tests:
        for variant, settings in variants.items():
            own = config.framework if variant == "default" else f"{config.framework}-{variant}"
            try:
                yield _entry(folder.absolute(), own, _SuiteTest.model_validate(settings), workloads)
            except ValueError as error:
                yield LeftOut(f"{_SUITE}:{own.lower()}", Cause.UNREADABLE, f"{CONFIG}: {fault_of(error)}")


def fault_of(error: ValueError) -> str:
    """The first fault of a file in a line."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    at = ".".join(map(str, first["loc"]))
    return f"{at}: {first['msg']}" if at else first["msg"]


def _entry(folder: Path, own: str, test: _SuiteTest, workloads: Collection[str]) -> SuiteEntry | LeftOut:
    """A test as an entry.

    Raises:
        ValueError: its command is not a list of words.
    """
    name = f"{_SUITE}:{own.lower()}"
    if "broken" in test.tags:
        return LeftOut(name, Cause.BROKEN)
    dockerfile = test.dockerfile or f"{own}.dockerfile"
    if not _is_inside(folder, dockerfile):
        return LeftOut(name, Cause.NO_DOCKERFILE, dockerfile)
    urls: dict[str, str] = {key: url for key in TESTS if (url := getattr(test, key))}
    if not urls:
        return LeftOut(name, Cause.NO_TESTS)
    served, ignored = _served(name, test.database, urls, workloads)
    if not served:
        return refused(name, ignored, _PRECEDENCE)
    facts = {
        "suite": "TechEmpower FrameworkBenchmarks",
        "approach": test.approach,
        "classification": test.classification,
        "platform": test.platform,
        "ORM": test.orm,
    }
    return SuiteEntry(
        name=name,
        title=test.display_name or own,
        host=_named(test.webserver) or _named(test.platform) or test.framework or own,
        language=test.language or "unknown",
        build=folder,
        dockerfile=dockerfile,
        args=_args(folder / dockerfile, own, test),
        cmd=shlex.split(test.docker_cmd),
        port=test.port,
        served=served,
        parity={key: text for key, text in facts.items() if _named(text)},
        ignored=ignored,
    )


def _served(
    name: str, database: str, urls: Mapping[str, str], workloads: Collection[str]
) -> tuple[dict[str, ServedTest], tuple[LeftOut, ...]]:
    """The workloads of a test, and the tests that are left out, by their URLs."""
    served: dict[str, ServedTest] = {}
    ignored: list[LeftOut] = []
    for key, url in urls.items():
        workload, asks_database = TESTS[key]
        if asks_database and database.lower() != _DATABASE:
            known = _DATABASES.get(database.lower(), database)
            ignored.append(LeftOut(name, Cause.DATABASE, known or "a database that it does not name"))
        elif not _PATH.fullmatch(url):
            ignored.append(LeftOut(name, Cause.UNREADABLE, f"{key} {url!r}"))
        elif workload not in workloads:
            ignored.append(LeftOut(name, Cause.NO_WORKLOAD, workload))
        else:
            served[workload] = ServedTest(path=url, own_form=workload in _JSON)
    return served, tuple(dict.fromkeys(ignored))


def _named(text: str) -> str:
    """A setting; "" if the file has none."""
    return "" if text.lower() == "none" else text


def _is_inside(folder: Path, name: str) -> bool:
    """Whether a file is in an entry's folder, whose files come from elsewhere."""
    return ".." not in Path(name).parts and not Path(name).is_absolute() and paths.is_file(folder / name)


def _args(dockerfile: Path, own: str, test: _SuiteTest) -> dict[str, str]:
    """The arguments of the suite's builds that a Dockerfile declares; variants with the same arguments share a build.

    Raises:
        ValueError: the Dockerfile can't be read.
    """
    given = {"BENCHMARK_ENV": "unspecified", "TFB_TEST_NAME": own, "TFB_TEST_DATABASE": test.database}
    text = paths.read(dockerfile, MAX_BYTES).decode("utf-8", "replace")
    declared = set(re.findall(r"^[ \t]*ARG[ \t]+(\w+)", text, re.MULTILINE | re.IGNORECASE))
    return {name: value for name, value in given.items() if name in declared}
