"""The documentation: its commands exist, its links lead somewhere, its words are spelt right, its pages build."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import check_prose as prose
import click
import pytest
from test_house import ENGINE_ROOMS

from dragstrip.commands.main import cli
from dragstrip.contender import line_up
from dragstrip.record import METHOD_VERSION

# The text is the same on every machine: once in `make check` is enough.
pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]


PAGES = prose.pages()
METHOD = ROOT / "docs" / "METHOD.md"


def commands() -> list[tuple[str, str]]:
    """Every line of a code block, and every word of code in a text, that runs dragstrip, with its page."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```(?:sh|yaml)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                match = re.match(r"\s*(?:\$ )?(?:\.venv/bin/)?dragstrip (\S.*)", line)
                if match:
                    found.append((page.name, re.sub(r"\s(#|\|\|).*", "", match[1])))
        plain = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        within = re.findall(r"`(?:\.venv/bin/)?dragstrip ([a-z][^`]*)`", plain)
        found += [(page.name, " ".join(words.split())) for words in within if page.name != "CHANGELOG.md"]
    return found


@pytest.mark.parametrize(("page", "line"), commands())
def test_each_command_that_a_page_tells_exists_with_its_options(page: str, line: str) -> None:
    """The command and every option are known to the command line; nothing is run."""
    name, *words = shlex.split(line)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"{page}: dragstrip {name}"
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0] in known | {"--help", "-h"}, f"{page}: dragstrip {name} {word}"


def anchors(page: Path) -> set[str]:
    """What a link to a heading of this page may end in: the heading in lower case, its blanks as hyphens."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_to_files_and_headings(page: Path) -> None:
    """Each relative link's file is there, and the heading in it that the link names."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, heading = target.partition("#")
        file = (page.parent / name) if name else page
        assert file.exists(), f"{page.name}: {target}"
        if heading:
            assert heading in anchors(file), f"{page.name}: {target}; there are {sorted(anchors(file))}"


def test_sections_of_the_method_that_the_code_names_exist() -> None:
    """Docstrings cite ``docs/METHOD.md``, "Section"; that page names each page of details."""
    method = METHOD.read_text(encoding="utf-8")
    sections = set(re.findall(r"^#+ (.+)$", method, re.MULTILINE))
    cited = set()
    for path in (ROOT / "src" / "dragstrip").rglob("*.py"):
        text = " ".join(path.read_text(encoding="utf-8").split())
        for after in re.findall(r"``docs/METHOD\.md``, ((?:\"[^\"]+\"(?:,| and)? ?)+)", text):
            cited |= {(path.name, name) for name in re.findall(r"\"([^\"]+)\"", after)}
    assert len(cited) >= 15
    assert not {(file, name) for file, name in cited if name not in sections}
    assert not [page for page in (ROOT / "docs" / "method").glob("*.md") if f"(method/{page.name})" not in method]


def numbers(pattern: str, *pages: str) -> list[str]:
    """What a pattern's group finds on these pages; line ends count as blanks."""
    texts = [" ".join((ROOT / page).read_text(encoding="utf-8").split()) for page in pages]
    return [number for text in texts for number in re.findall(pattern, text)]


def test_numbers_of_method_and_versions_on_pages_are_those_of_the_code() -> None:
    """What a reader would install or compare with."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    cargo = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    python = re.search(r'requires-python = ">=([\d.]+)"', project)
    rust = re.search(r'rust-version = "([\d.]+)"', cargo)
    assert python
    assert rust
    assert numbers(r"this is method (\d+)\.", "docs/METHOD.md") == [str(METHOD_VERSION)]
    assert set(numbers(r"Python (\d+\.\d+) or later", "README.md", "CONTRIBUTING.md")) == {python[1]}
    assert set(numbers(r"cargo\S* (\d+\.\d+) or later", "README.md", "CONTRIBUTING.md")) == {rust[1]}


def test_counts_on_pages_are_those_of_the_code() -> None:
    """Counts in words and figures that a change of the code makes untrue."""
    words = {"six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
    assert {words[word] for word in numbers(r"races (\w+) servers", "README.md")} == {len(line_up("default").names)}
    rooms = numbers(r"only ((?:`\w+`,? (?:and )?)+)may load the compiled engine", "docs/ARCHITECTURE.md")
    assert [set(re.findall(r"`(\w+)`", room)) for room in rooms] == [ENGINE_ROOMS]


def test_the_prose_check_finds_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long sentence and a long line are found with their places; code, tables and generated parts are left out."""
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    long = " ".join(["Word"] * 36)
    page.write_text(
        f"# Head\n\nShort one. {long}.\n\n| {long} {long} |\n\n```sh\n{long} {long}\n```\n", encoding="utf-8"
    )
    assert [place.split(": ")[:2] for place in prose.long_sentences(page)] == [["page.md:3", "36 words"]]
    assert [place.split(": ")[0] for place in prose.long_lines(page)] == ["page.md:3"]
    page.write_text(
        f"<!-- x: begin -->\n{long}\n<!-- x: end -->\n\nSee [a]({long.replace(' ', '')}).\n", encoding="utf-8"
    )
    assert not prose.long_sentences(page)
    assert not prose.long_lines(page)


def test_no_word_is_misspelt() -> None:
    """By codespell, in documents, docstrings and comments of the whole repository."""
    pytest.importorskip("codespell_lib", reason="codespell is not installed: pip install 'dragstrip[test]' (make lint)")
    assert not prose.misspelt()


def test_the_pages_build(tmp_path: Path) -> None:
    """By MkDocs; none of them asks anything of another host for its look."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'dragstrip[docs]' (make docs)")
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install 'dragstrip[docs]'")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("index", "tutorial", "verdicts", "METHOD"):
        text = (tmp_path / "site" / f"{name}.html").read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=.?https?://", text), name


TARGETS = sorted(
    {
        (str(page.relative_to(ROOT)), target)
        for page in PAGES
        if page.name != "CHANGELOG.md"
        for target in re.findall(r"(?:`|^)make(?: -n)?\s+([a-z][\w-]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
)


@pytest.mark.parametrize(("page", "target"), TARGETS)
def test_each_target_on_a_page_is_the_makefile_s(page: str, target: str) -> None:
    """`make TARGET` on a page can be typed."""
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), page


def test_each_line_about_security_names_a_test_that_exists() -> None:
    """By its function, in Python or in Rust."""
    text = (ROOT / "docs" / "SECURITY.md").read_text()
    named = re.findall(r"^\| .* \| `(\w+)` \|$", text, re.MULTILINE)
    assert len(named) > 20
    files = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "crates").rglob("*.rs")]
    defined = set(re.findall(r"\b(?:def|fn) (\w+)\(", "\n".join(file.read_text() for file in files)))
    assert set(named) <= defined, set(named) - defined
