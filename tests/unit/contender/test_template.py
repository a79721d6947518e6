"""Templates from files: what they can say, which Jinja reads in the same way, and what a stranger's can't do."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jinja2
import pytest
from jinja2 import meta

from dragstrip import contender, workload
from dragstrip.contender.template import TemplateRefused, budget, names_in, render
from dragstrip.errors import BadDefinition
from dragstrip.workload import Asking, drawn_tables

WORKLOAD = """\
name = "odd"
title = "odd"
[request]
path = "/"
[answer]
content_type = "text/plain"
body = '''{body}'''
"""

#: Each asks for more than a file may: a program, a file, an object's inside, hours or gigabytes.
HOSTILE = [
    "{{ cycler.__init__.__globals__.os.popen('touch marker').read() }}",
    "{{ lipsum.__globals__['os'].system('touch marker') }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ mark.format.__globals__ }}",
    "{{ '{0.__class__}' | format(1) }}",
    "{{ range.__self__ }}",
    "{{ mark | attr('__class__') }}",
    "{% include '/etc/passwd' %}",
    "{% import 'x' as y %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% set x = 1 %}",
    "{{ 'a' * 20000000000 }}",
    "{{ [1] * 20000000000 }}",
    "{{ 10 ** 10 ** 10 }}",
    "{{ 2 << 99999999999 }}",
    "{{ '%99999999999d' % 5 }}",
    "{{ 'a' | center(10000000000) }}",
    "{{ range(10000000000) }}",
    "{% for i in range(1000000000) %}x{% endfor %}",
    "{% for i in range(1000000) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}",
    "{% for i in range(9000) %}{% for j in range(9000) %}{% for k in range(9000) %}x" + "{% endfor %}" * 3,
    "{% for i in range(9) recursive %}{{ loop(range(9)) }}{% endfor %}",
    "{% for i in range(100000) %}{{ [" + "1 + 1, " * 3000 + "1] | length }}{% endfor %}",
    "{% for i in range(100000) %}{{ 'é" + "x" * 9000 + "' | upper }}{% endfor %}",
    "{% for i in range(100000) %}{{ 1 if range(1000000) | join == '1' }}{% endfor %}",
    "{{ " + "(" * 30_000 + " }}",
    "{{ " + "not " * 30_000 + "1 }}",
    "{{ " + "1 + " * 30_000 + "1 }}",
    "{{ " + "9" * 300 + " * " * 20 + "9" * 300 + " }}",
    "{{ " + " * ".join(["9" * 300] * 20) + " }}",
    "{{ " + "9" * 5000 + " }}",
    "{{ 1 / 0 }}",
    "{{ 1 + 'a' }}",
    "{{ mark[9] }}",
    "{% if %}",
    "{{ a",
]


@pytest.mark.thorough
@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: body[:40])
def test_a_strangers_template_is_refused_in_words(tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, line, field, and what is allowed; nothing ran."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "odd.toml"
    file.write_text(WORKLOAD.replace("{body}", body))
    with pytest.raises(BadDefinition) as refusal:
        workload.load(file)
    assert (refusal.value.line, refusal.value.field) == (7, "answer.body")
    assert refusal.value.remedy
    assert not (tmp_path / "marker").exists()


#: Only what one definition adds up to is too much; none of its templates is.
TOGETHER = [
    (
        'path = "/"',
        'path = "/?{{ a }}"',
        "[load]\ncount = 10000\nnumbers.a = [1, 99999]\n[probes]\nnumbers.a = [1, 9]\n",
    ),
    ("'''", "'''", '[[data]]\nfile = "a"\nrows = 50000\ntexts.t = [1000000, 1000000]\ncontent = "x"\n'),
    ("'''", "'''", "".join(f'[[data]]\nfile = "a{n}"\nbytes = 67108864\n' for n in range(9))),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("before", "after", "more"), TOGETHER, ids=["requests", "texts", "files"])
def test_what_all_of_a_definition_makes_has_a_bound(tmp_path: Path, before: str, after: str, more: str) -> None:
    """In a process of 900 MB of addresses: a refusal, no lack of memory."""
    file = tmp_path / "odd.toml"
    file.write_text(WORKLOAD.replace("{body}", "x" * 20_000).replace(before, after) + more)
    limited = "import resource; resource.setrlimit(resource.RLIMIT_AS, (900 * 2**20,) * 2)\n"
    code = f"{limited}from dragstrip import workload\nworkload.load({str(file)!r})"
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert "BadDefinition" in done.stderr.splitlines()[-1]
    assert "one definition's templates and draws" in done.stderr


@pytest.mark.parametrize("named", ["/dev/zero", "/etc/passwd", "../secret", "link", "."])
def test_a_workload_reads_only_files_beside_it(tmp_path: Path, named: str) -> None:
    """Whatever it names, and wherever a link leads."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    file = folder / "odd.toml"
    request = f'path = "/"\nmethod = "POST"\nbody_file = "{named}"'
    file.write_text(WORKLOAD.replace("{body}", "x").replace('path = "/"', request))
    with pytest.raises(BadDefinition, match=r"outside of|not a regular file"):
        workload.load(file)


def _shipped() -> list[Path]:
    places = [
        definition.folder / name
        for definition in contender.shipped().values()
        for name in definition.fields.start.render
    ]
    return sorted({place.resolve() for place in places})


@pytest.mark.parametrize("file", _shipped(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_shipped_template_becomes_what_jinja_makes_of_it(file: Path) -> None:
    """Every branch of it: names, and the text for three kinds of values."""
    text, jinja = file.read_text(), jinja2.Environment(keep_trailing_newline=True)
    names = names_in(text)
    assert names == meta.find_undeclared_variables(jinja.parse(text)) - {"range"}
    for choice in ("on", "2", ""):
        values: dict[str, object] = dict.fromkeys(names, choice)
        values |= dict.fromkeys(names & {"processes", "workers", "threads"}, 3)
        values |= {"data_files": ("items.json", "static/1")}
        assert render(text, values) == jinja.from_string(text).render(values)


@pytest.mark.parametrize(
    "text",
    [
        "{{ a + 1 }} {{ a - 1 }} {{ a * 2 }} {{ a / 2 }} {{ a // 2 }} {{ a % 4 }} {{ -a }} {{ +a }} {{ b ~ a ~ none }}",
        "{{ 'x' if a > 3 and a < 9 or not a else 'y' }}{{ 'z' if a == 1 }}{{ a in items }}{{ 'e' not in b }}",
        "{{ 1 < a <= 7 }}{{ items | join(', ') }}{{ items | join }}",
        "{% for i in items[1:] %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ i }}{% else %}none{% endfor %}",
        "{% for i in [] %}{% else %}none{% endfor %}",
        "{% for i in (1, 2) %}{% for i in range(i) %}{{ loop.length }}{% endfor %}{% endfor %}",
        "{{ items | length }}{{ b | upper | lower }}{{ '7' | int + 1 }}{{ -a | abs }}",
        "{{ b | urlencode }}{{ a | string ~ 1 }}{{ rows[0].id }}{{ rows[-1]['id'] }}{{ b[0] }}{{ b[::-1] }}{{ true }}",
        "{%- if a %} x {%- elif b %} y {% else %} z {% endif -%}  {# note #}{% raw %}{{ a }}{% endraw %}\n",
    ],
)
def test_what_a_template_may_say_means_what_it_means_to_jinja(text: str) -> None:
    """Operators, loops, filters, white space."""
    values: dict[str, object] = {"a": 7, "b": "héllo w/&", "items": [3, 5, 7], "rows": [{"id": 1}, {"id": 2}]}
    jinja = jinja2.Environment(keep_trailing_newline=True)
    assert render(text, values) == jinja.from_string(text).render(values)


@pytest.mark.thorough
def test_templates_that_belong_together_share_one_budget() -> None:
    """Each loop alone is within it."""
    text = "{% for i in range(200000) %}{{ i }}{% endfor %}"
    for _ in range(4):
        render(text, {})
    with budget(), pytest.raises(TemplateRefused, match="steps"):
        render(text + text, {}) + render(text + text, {})


@pytest.mark.thorough
def test_shipped_workloads_have_a_tenth_of_the_budget() -> None:
    """So that one ten times as large is still read."""
    for name in workload.names():
        with budget() as left:
            before = left.steps
            loaded = workload.load(name)
        with budget() as further:
            Asking(
                loaded, mark="mark", data=replace(loaded.data("x"), tables=drawn_tables(loaded.schema or "rows", 0))
            ).exchanges()
        assert 2 * before - left.steps - further.steps < before / 10, name
