"""Numbers, counts and durations as people type them, and that every option reads them with the same reader."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from dragstrip import quantities
from dragstrip.commands import main as cli_main
from dragstrip.commands.quantities import Count
from dragstrip.contender import allowed_host


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 10.0),
        ("1.5", 1.5),
        ("10s", 10.0),
        ("1m30s", 90.0),
        ("1h", 3600.0),
        ("2h1m5s", 7265.0),
        ("1s500ms", 1.5),
        ("5ms", 0.005),
        ("500us", 0.0005),
        ("500µs", 0.0005),
        ("0", 0.0),
    ],
)
def test_a_duration_has_each_unit_once(text: str, seconds: float) -> None:
    """The longest first."""
    assert quantities.seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "1m2m", "30s1m", "-5s", "1e3s", "1 m", "1d", "1M", "٣s", "1m30"])
def test_what_is_not_a_duration_is_none(text: str) -> None:
    """A number without its unit after another, an unusual order, other digits."""
    assert quantities.seconds(text) is None


@pytest.mark.parametrize(
    ("text", "count"), [("1", 1), ("10k", 10_000), ("1e3", 1000), ("1.5k", 1500), ("2M", 2 * 10**6), ("1E+6", 10**6)]
)
def test_a_count_may_have_an_exponent_or_a_suffix(text: str, count: int) -> None:
    """As long as it is whole."""
    assert quantities.whole(text) == count


@pytest.mark.parametrize("text", ["", "k", "1.5", "1e-3", "-1", "0x10", "1kk", "1,000", "nan", "1e999", "٣"])
def test_what_is_not_a_count_is_none(text: str) -> None:
    """Neither are other digits than ours."""
    assert quantities.whole(text) is None


def commands(group: click.Group, before: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    """Every command below a group, by its words."""
    found: dict[tuple[str, ...], click.Command] = {}
    for name in group.list_commands(click.Context(group)):
        one = group.get_command(click.Context(group), name)
        assert one is not None
        found |= commands(one, (*before, name)) if isinstance(one, click.Group) else {(*before, name): one}
    return found


def test_every_option_that_is_a_number_reads_it_alike() -> None:
    """None has click's own reader, which knows neither 10k nor 1e3; each duration takes 1m30s, each count 1e3."""
    seen = {"count": 0, "duration": 0}
    for words, command in commands(cli_main.cli).items():
        for param in command.params:
            where = (*words, *param.opts)
            plain = isinstance(param.type, type(click.INT) | type(click.FLOAT)) and param.name != "ratio"
            assert not plain or isinstance(param.type, Count), where
            if isinstance(param.type, Count) and (param.type.max or 10**9) >= 1000 > (param.type.min or 0):
                assert param.type.convert("1e3", param, None) == param.type.convert("1k", param, None) == 1000, where
                seen["count"] += 1
            if param.type.name == "duration":
                assert param.type.convert("1m30s", param, None) == 90.0, where
                seen["duration"] += 1
    assert min(seen.values()) >= 10, seen


def test_hosts_and_fleets_read_them_alike() -> None:
    """--allow-host is a text with numbers of its own."""
    host = allowed_host("lab:connections=1e3,rate=50k,time=1m30s")
    assert (host.connections, host.rate_per_s, host.time_s) == (1000, 50_000.0, 90.0)


def test_texts_of_the_help_hold_what_the_code_does() -> None:
    """Numbers come from the constants; nothing refers to a text that is elsewhere."""
    from dragstrip.commands.export import export_command
    from dragstrip.commands.load import load
    from dragstrip.commands.race import race
    from dragstrip.racing.schedule import ROUNDS_WANTED

    def text(command: click.Command, name: str) -> str:
        (found,) = (one for one in command.params if one.name == name)
        assert isinstance(found, click.Option)
        return found.help or ""

    assert f"up to 5m if {ROUNDS_WANTED} rounds" in text(race, "budget_s")
    assert "columns if the race has several" in text(export_command, "chart")
    help_text = load.get_help(click.Context(load, info_name="load"))
    for option, described in (("--pool", "--pool FILE lists"), ("--url-template", "--url-template PATH draws")):
        assert help_text.index(described) < help_text.rindex(f"{option} "), option
    assert "see below" not in help_text


def test_documents_say_when_noise_is_unknown_and_what_needs_a_network() -> None:
    """METHOD.md names shared cores; the README's promise is a race's, not that of `make race`."""
    root = Path(__file__).parents[2]
    method, readme = ((root / page).read_text() for page in ("docs/METHOD.md", "README.md"))
    noise = " ".join(method.partition("*very disturbed*")[2].partition("\n## ")[0].split())
    assert "*unknown*" in noise
    assert "share a core" in noise
    assert "A race needs no Docker, no account and no network" in " ".join(readme.split())
