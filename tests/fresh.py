"""Types the README's commands where nothing is installed: in roots that debootstrap made, as root and as another user.

    python tests/fresh.py                                   # all
    python tests/fresh.py --only trixie-user                # one: a release, and who types
    python tests/fresh.py --only bookworm-all,trixie-all    # every contender: into docs/releases.json
    python tests/fresh.py --revision 249e8e46 --keep        # an older state of the checkout; the roots stay

A root is a minimal Debian (`debootstrap --variant=minbase`) with this machine's settings of package managers and its
Rust toolchain, which the README names as a prerequisite. Mounts and processes are in namespaces of their own
(unshare(1)), so nothing of them stays. Commands come from README.md: the page and this check can't part. Base roots are
kept below ~/.cache/dragstrip-fresh, by suite and day. `…-wheel` is an ordinary user's root without Rust, for the
README's lines of the wheel; `trixie-container` builds the Containerfile on such a root by podman, and races in it.
`trixie-wheel` and `…-all`, which installs and verifies every contender, are tried only if named.

Compiling takes longest. The first root of a release compiles; the second one gets what cargo has left there, and
compiles nothing if the page's commands are right. On one release that is the ordinary user's root, on the other root's.

Each root's output goes to runs/fresh/NAME.log; at the end a table has the seconds of each command, the installed
packages, and the tests that passed and were skipped; runs/fresh/passed.txt names those that passed. It needs root and
debootstrap. Exit code 1 where a command failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path

from tiers import PASSED, outcomes_of, reasons_of

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "runs" / "fresh"
WHEELS = LOGS / "dist"
BASES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragstrip-fresh"

SUITES = ("bookworm", "trixie")
#: What can be tried: a release, and who types there or what is installed. Of a release, the first checkout compiles.
NAMES = (
    *("bookworm-wheel", "bookworm-user", "bookworm-root"),
    *("trixie-root", "trixie-user", "trixie-container"),
)
#: Only if they are named: the container on Debian 13 installs the wheel, too; every contender takes half an hour.
NAMED_ONLY = ("trixie-wheel", *(f"{suite}-all" for suite in SUITES))
#: The name of the ordinary user.
USER = "racer"
#: Where the checkout and cargo's own files are in every root: what cargo has built holds for these paths only.
CHECKOUT, CARGO_HOME = "/srv/dragstrip", "/srv/cargo"
#: What cargo leaves there and another root of the release can use.
BUILT = (f"{CHECKOUT}/target", f"{CHECKOUT}/Cargo.lock", CARGO_HOME)

#: Settings of package managers that a machine may need to reach its registries, by their paths on both sides.
SETTINGS = ("/etc/pip.conf", "/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt", "/usr/etc/npmrc")
#: The same in the home folder.
HOME_SETTINGS = (".npmrc", ".config/pip/pip.conf", ".config/go/env")
#: And in the environment: a file of certificates for npm, which is copied.
ENVIRONMENT = ("NODE_EXTRA_CA_CERTS",)

#: What the README's reader has before the first command, if the page has no line for it (older revisions).
PREREQUISITES = "apt-get install git make python3"


@dataclass
class Typed:
    """One command of the README in one root: its seconds, and the tests that it ran, by outcome."""

    words: str
    seconds: float
    code: int
    tests: Counter[str] = field(default_factory=Counter)


@dataclass
class Result:
    """What happened in one root."""

    name: str
    typed: list[Typed]
    packages: int = 0
    compiled: bool = True
    weighs: str = ""
    skips: Counter[str] = field(default_factory=Counter)
    passed: frozenset[str] = frozenset()
    left_out: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Page:
    """The README's commands: what installs the prerequisites, the two that do all the set-up, those of the wheel."""

    before: str
    typed: tuple[str, ...]
    wheel: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Page:
        blocks = [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]
        lines = [line for block in blocks for line in block]
        before = next((line for line in lines if "apt-get install" in line), PREREQUISITES).replace("sudo ", "")
        typed = tuple(line for line in lines if line in ("make race", "make test"))
        return cls(before, typed, next((tuple(block) for block in blocks if ".whl" in "".join(block)), ()))


def sources() -> tuple[str, str]:
    """Addresses of this machine's Debian mirror and of its security updates ("": none), from apt's own files."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    text = "\n".join(path.read_text() for path in files if path.is_file())
    found = re.findall(r"^(?:URIs:|deb(?: \[[^]]*\])?)\s+(\S+)", text, re.MULTILINE)
    if not found:
        sys.exit("fresh: apt's sources on this machine name no mirror")
    return found[0], next((address for address in found if "security" in address), "")


def base(suite: str) -> Path:
    """A minimal root of this suite, made today; older ones are removed."""
    made = BASES / f"{suite}-{date.today().isoformat()}"
    if made.exists():
        return made
    BASES.mkdir(parents=True, exist_ok=True)
    for older in BASES.glob(f"{suite}-*"):
        _remove(older)
    half = BASES / f"{suite}-half"
    command = ("debootstrap", "--variant=minbase", "--include=ca-certificates", suite, str(half), sources()[0])
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"fresh: {shlex.join(command[:-1])} failed:\n{done.stdout[-2000:]}")
    half.rename(made)
    return made


def _remove(folder: Path) -> None:
    subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=True)


def _not_of_a_package(path: Path) -> bool:
    return subprocess.run(["dpkg", "-S", str(path)], capture_output=True).returncode != 0


def settle(root: Path, suite: str, home: Path) -> None:
    """Copies this machine's settings of package managers, so that the root reaches the same registries."""
    # This root is not needed after a power failure, and waiting for the disk takes longer than unpacking.
    (root / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
    mirror, security = sources()
    lines = [f"deb {mirror} {suite} main", f"deb {mirror} {suite}-updates main"]
    lines += [f"deb {security} {suite}-security main"] if security else []
    (root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
    for path in Path("/etc/apt/apt.conf.d").iterdir():
        if _not_of_a_package(path) and not (root / str(path)[1:]).exists():
            shutil.copy(path, root / "etc/apt/apt.conf.d")
    pairs = [(Path(name), root / name[1:]) for name in SETTINGS]
    pairs += [(Path.home() / name, root / str(home)[1:] / name) for name in HOME_SETTINGS]
    pairs += [(Path.home() / ".cargo" / "config.toml", root / CARGO_HOME[1:] / "config.toml")]
    for ours, theirs in pairs:
        if ours.exists():
            theirs.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ours, theirs)


class Fresh:
    """A root of its own: commands run in it as root or as ``user``; what they print goes to a log."""

    def __init__(self, folder: Path, suite: str, user: str, log: Path, *, rust: bool) -> None:
        self.folder, self.user, self.rust = folder, user, rust
        self.home = Path("/root" if user == "root" else f"/home/{user}")
        self.log = log.open("w+", encoding="utf-8", errors="replace")
        subprocess.run(["cp", "-a", "--reflink=auto", f"{base(suite)}/.", str(folder)], check=True)
        folder.chmod(0o755)
        if user != "root":
            self.run(f"useradd --create-home --shell /bin/bash {user}", as_root=True)
        settle(folder, suite, self.home)
        if user != "root":
            self.run(f"mkdir -p {CARGO_HOME} && chown -R {user}: {self.home} {CARGO_HOME}", as_root=True)

    def run(self, words: str, *, as_root: bool = False, where: str = "/") -> int:
        """Exit code of a shell's command; its output follows what the log has."""
        user = "root" if as_root else self.user
        toolchain = subprocess.run(
            ["rustc", "--print", "sysroot"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        # The toolchain is the machine's, everything that cargo writes is the root's own.
        path = ("/opt/rust/bin:" if self.rust else "") + "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        home = "/root" if user == "root" else self.home
        bindings = "" if not self.rust else (
            f"mkdir -p {self.folder}/opt/rust && mount --bind -o ro {toolchain.strip()} {self.folder}/opt/rust &&"
        )  # fmt: skip
        settings = "".join(f" {name}={os.environ[name]}" for name in ENVIRONMENT if name in os.environ)
        # The shell stays as the first process, which reaps what others leave; make would not.
        inside = f"cd {where} && {words}; exit $?"
        script = (
            f"mount --make-rprivate / && mount -t proc proc {self.folder}/proc && "
            f"mount --rbind /dev {self.folder}/dev && mount --rbind /sys {self.folder}/sys && {bindings} "
            f"exec chroot --userspec={user} {self.folder} "
            f"env -i HOME={home} USER={user} PATH={path} CARGO_HOME={CARGO_HOME} LANG=C.UTF-8{settings}"
            f" sh -c {shlex.quote(inside)}"
        )
        self.end()
        self.log.write(f"\n$ {words}\n")
        self.log.flush()
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
        ).returncode  # fmt: skip

    def install(self, words: str) -> bool:
        """Installs packages as root, by a command line of apt-get; whether it succeeded."""
        quiet = "DEBIAN_FRONTEND=noninteractive"
        return self.run(f"apt-get update -qq && {quiet} {words} -y --no-install-recommends", as_root=True) == 0

    def end(self) -> int:
        """Where the log ends now."""
        self.log.seek(0, os.SEEK_END)
        return self.log.tell()

    def said(self, since: int = 0) -> str:
        self.log.seek(since)
        return self.log.read()

    def packages(self) -> set[str]:
        status = (self.folder / "var/lib/dpkg/status").read_text(errors="replace")
        return set(re.findall(r"^Package: (\S+)\nStatus: install ok installed", status, re.MULTILINE))


@contextmanager
def fresh(name: str, user: str, *, keep: bool = False, rust: bool = True) -> Iterator[Fresh]:
    """A fresh root, removed at the end."""
    LOGS.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"dragstrip-fresh-{name}-", dir="/var/tmp"))
    try:
        yield Fresh(folder, name.partition("-")[0], user, LOGS / f"{name}.log", rust=rust)
    finally:
        print(f"fresh: {folder} is kept", flush=True) if keep else _remove(folder)


def pasted(text: str) -> str:
    """The command that the build prints for what is missing, as root would type it; "": none."""
    found = re.search(r"Paste: (.*)$", text, re.MULTILINE)
    return (
        found.group(1).replace("sudo ", "").replace("apt-get install", "DEBIAN_FRONTEND=noninteractive apt-get install")
        if found
        else ""
    )


def attempt(names: Sequence[str], revision: str, keep: bool, until: float) -> list[Result]:
    """The tests of one release's roots, one after the other.

    Args:
        until: no further root is begun after this time (``time.monotonic``).
    """
    others = {"wheel": with_the_wheel, "container": in_a_container, "all": with_every_contender}
    with tempfile.TemporaryDirectory(prefix="dragstrip-fresh-built-", dir="/var/tmp") as built:
        results = []
        for name in names:
            if results and time.monotonic() > until:
                results.append(Result(name, [], left_out=True))
                continue
            tried = others.get(name.partition("-")[2], partial(race_and_test, built=Path(built)))
            results.append(tried(name, revision, keep))
        return results


def race_and_test(name: str, revision: str, keep: bool, built: Path) -> Result:
    """The README's words in one root, one after the other; the first failure ends it.

    Args:
        built: what cargo left in an earlier root of the release; empty if this is the first, which leaves it there.
    """
    user = "root" if name.endswith("-root") else USER
    page, result = Page.of(_show(revision, "README.md")), Result(name, [])
    with fresh(name, user, keep=keep) as root:
        begun = time.monotonic()
        if not root.install(page.before):
            return _failed(result, root, "the prerequisites can't be installed")
        result.typed.append(Typed(page.before, time.monotonic() - begun, 0))
        there = root.folder / CHECKOUT[1:]
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(there)], check=True)
        subprocess.run(["git", "-C", str(there), "checkout", "--quiet", revision], check=True)
        # As below /root, no other user can enter it.
        (root.folder / "srv").chmod(0o700 if user == "root" else 0o755)
        # Older than what cargo has built of the same commit.
        subprocess.run(["find", str(there), "-exec", "touch", "-h", "-d", "@1", "{}", "+"], check=True)
        for path in built.iterdir():
            result.compiled = False
            subprocess.run(["cp", "-a", "--reflink=auto", str(path), str(root.folder / "srv")], check=True)
        # What a run leaves that was cut off: an environment without pip. Debian's python3 alone makes it.
        half = f"python3 -m venv --without-pip {CHECKOUT}/.venv && chown -R {user}: {CHECKOUT} {CARGO_HOME}"
        root.run(half, as_root=True)
        had = root.packages()
        for words in page.typed:
            if not type_in(root, result, words, CHECKOUT):
                return _failed(result, root, f"{words} failed")
        result.packages = len(root.packages() - had)
        noted = there.glob(".pytest_cache/v/passed/*")  # older revisions have none
        result.passed = frozenset(chain.from_iterable(json.loads(file.read_text()) for file in noted))
        for left in BUILT if result.compiled else ():
            kept = built / Path(left).relative_to("/srv")
            kept.parent.mkdir(exist_ok=True)
            (root.folder / left[1:]).rename(kept)
    return result


def type_in(root: Fresh, result: Result, words: str, where: str) -> bool:
    """Types one command, and notes what it did; whether it succeeded.

    An ordinary user is shown what root must install, by a command to paste: it is run as it was printed, once.
    """
    since, begun = root.end(), time.monotonic()
    code = root.run(words, where=where)
    if code and root.user != "root" and (paste := pasted(root.said(since))):
        result.typed.append(Typed(words, time.monotonic() - begun, 0))
        begun = time.monotonic()
        code = root.run(paste, as_root=True)
        result.typed.append(Typed(paste.replace("DEBIAN_FRONTEND=noninteractive ", ""), time.monotonic() - begun, code))
        begun = time.monotonic()
        code = code or root.run(words, where=where)
    said, seconds = root.said(since), time.monotonic() - begun
    result.typed.append(Typed(words, seconds, code, outcomes_of(said)))
    result.skips += reasons_of(said)
    print(f"fresh: {result.name}: {words}: exit code {code} after {seconds:.0f} s", flush=True)
    return code == 0


def with_the_wheel(name: str, revision: str, keep: bool) -> Result:
    """The README's lines of the wheel, by an ordinary user of a root that has no Rust."""
    page, result = Page.of(_show(revision, "README.md")), Result(name, [])
    with fresh(name, USER, keep=keep, rust=False) as root:
        if not root.install("apt-get install python3 python3-venv"):
            return _failed(result, root, "python3-venv can't be installed")
        shutil.copy(wheel(), root.folder / str(root.home)[1:])
        had = root.packages()
        for words in page.wheel:
            if not type_in(root, result, words, str(root.home)):
                return _failed(result, root, f"{words} failed")
        result.packages = len(root.packages() - had)
        result.weighs = weight(root.folder / str(root.home)[1:] / "dragstrip")
    return result


def weight(environment: Path) -> str:
    """Installed bytes of the wheel and all that it needs: an environment without pip, which Python puts there."""
    files = [path for path in environment.rglob("*") if path.is_file() and not path.is_symlink()]
    own = [path for path in files if not {"pip", "__pycache__"} & set(path.parts)]
    return f"{sum(path.stat().st_size for path in own) / 1e6:.0f} MB"


#: Held while the table of releases is written.
_TABLE = threading.Lock()


def with_every_contender(name: str, revision: str, keep: bool) -> Result:
    """Installs every contender by the wheel, verifies it, and notes in docs/releases.json what came of it."""
    result, table = Result(name, []), ROOT / "docs" / "releases.json"
    with fresh(name, "root", keep=keep) as root:
        if not root.install("apt-get install python3 python3-venv"):
            return _failed(result, root, "python3-venv can't be installed")
        shutil.copy(wheel(), root.folder / "srv")
        shutil.copy(ROOT / "packaging" / "releases.py", root.folder / "srv")
        for words in (
            "python3 -m venv all && all/bin/pip install --quiet dragstrip-*.whl",
            "all/bin/dragstrip install --all --yes",
            "all/bin/python releases.py releases.json",
        ):
            if not type_in(root, result, words, "/srv"):
                return _failed(result, root, f"{words} failed")
        with _TABLE:
            known = json.loads(table.read_text()) | json.loads((root.folder / "srv" / "releases.json").read_text())
            table.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    return result


def in_a_container(name: str, revision: str, keep: bool) -> Result:
    """The Containerfile, built on a fresh root, and a race in the image, as the image's user."""
    result, image, over = Result(name, []), "localhost/dragstrip-fresh", "localhost/dragstrip-fresh-base"
    with fresh(name, "root", keep=keep, rust=False) as root, tempfile.TemporaryDirectory() as scratch:
        (context := Path(scratch) / "dist").mkdir()
        shutil.copy(wheel(), context)
        for file in ("Containerfile", "constraints.txt"):
            (Path(scratch) / file).write_text(_show(revision, file))
        raced = f"FROM {image}\nRUN id && dragstrip race --line-up default --budget 20s\n"
        (Path(scratch) / "Raced").write_text(raced)
        # `podman run` needs rights and cgroups that a machine inside another one lacks; a build's step needs neither.
        build = "podman build --network=host --isolation=chroot --ulimit nofile=4096:4096"
        try:
            for words in (
                f"tar -C {root.folder} -c . | podman import -q - {over}",
                f"{build} --build-arg BASE={over} -t {image} {scratch}",
                f"{build} --no-cache -f {scratch}/Raced -t {image}-raced {scratch}",
            ):
                begun = time.monotonic()
                code = subprocess.run(
                    words, shell=True, stdin=subprocess.DEVNULL, stdout=root.log, stderr=subprocess.STDOUT
                ).returncode
                result.typed.append(Typed(" ".join(words.split()[:2]), time.monotonic() - begun, code))
                if code:
                    return _failed(result, root, f"{words} failed")
            if not re.search(rf"^uid=[1-9]\d*\({USER}\)", root.said(), re.MULTILINE):
                return _failed(result, root, "the container's user is not an ordinary one")
        finally:
            for built in (f"{image}-raced", image, over):
                subprocess.run(["podman", "rmi", "--force", built], capture_output=True)
    return result


def wheel() -> Path:
    """This checkout's wheel, which `built` made."""
    (found,) = WHEELS.glob("*.whl")
    return found


def build_wheel() -> None:
    """Builds the wheel by what cargo has compiled already."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    maturin = ROOT / ".venv" / "bin" / "maturin"
    if not maturin.exists():
        sys.exit("fresh: the wheel is built by the checkout's maturin: make build")
    subprocess.run([str(maturin), "build", "--quiet", "--release", "--out", str(WHEELS)], cwd=ROOT, check=True)


def _failed(result: Result, root: Fresh, problem: str) -> Result:
    result.problem = problem
    failures = re.findall(r"^(?:FAILED|ERROR) .*$", root.said(), re.MULTILINE)
    print(f"\n== {result.name}: {problem}", *failures, *root.said().splitlines()[-40:], sep="\n", flush=True)
    return result


def _show(revision: str, path: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), "show", f"{revision}:{path}"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def table(results: Sequence[Result]) -> list[str]:
    """The lines of a Markdown table, and the reasons of skips below it."""
    lines = ["| root | command | seconds | packages | passed | skipped | |", "|-|-|-:|-:|-:|-:|-|"]
    for result in results:
        for one in result.typed:
            counts = (f"{one.tests['passed']:,}", f"{one.tests['skipped']}") if one.tests else ("", "")
            last = one is result.typed[-1]
            lines.append(
                f"| {result.name} | `{one.words}` | {one.seconds:.0f} | {result.packages if last else ''} | "
                f"{counts[0]} | {counts[1]} | {'**failed**' if one.code else ''} |"
            )
        if result.left_out:
            lines.append(f"| {result.name} | | | | | | **left out: the time was over** |")
        elif not result.typed:
            lines.append(f"| {result.name} | | | | | | **{result.problem}** |")
    if spared := [result.name for result in results if not result.compiled]:
        lines += ["", f"What cargo builds came from the other root of the release: {', '.join(spared)}."]
    for result in results:
        lines += ["", f"The wheel and all that it needs, in {result.name}: {result.weighs}."] if result.weighs else []
        lines += ["", f"skipped in {result.name}:"] if result.skips else []
        lines += [f"- {number} × {reason}" for reason, number in result.skips.most_common()]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Types the README's commands in fresh roots.")
    parser.add_argument("--only", default=",".join(NAMES), help=f"some of {','.join(NAMES)}, with commas between them")
    parser.add_argument("--revision", default="HEAD", help="the commit to try")
    parser.add_argument("--keep", action="store_true", help="leave the roots, and say where")
    parser.add_argument("--at-once", type=int, default=2, help="releases at a time")
    parser.add_argument(
        "--minutes", type=float, default=28, help="after so long no further root is begun; what is left out is said"
    )
    chosen = parser.parse_args()
    known = (*NAMES, *NAMED_ONLY)
    wanted = [name for name in known if name in chosen.only.split(",")]
    if unknown := set(chosen.only.split(",")) - set(known):
        parser.error(f"--only {','.join(sorted(unknown))}: known are {', '.join(known)}")
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        parser.error("it needs root and debootstrap (apt-get install debootstrap)")
    revision = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--verify", f"{chosen.revision}^{{commit}}"],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    for suite in dict.fromkeys(name.partition("-")[0] for name in wanted):
        base(suite)
    if any(name.endswith(("-wheel", "-container", "-all")) for name in wanted):
        build_wheel()
    until = time.monotonic() + 60 * chosen.minutes
    with ThreadPoolExecutor(chosen.at_once) as pool:
        chains = [[name for name in wanted if name.startswith(suite)] for suite in SUITES]
        results = sum(pool.map(lambda names: attempt(names, revision, chosen.keep, until), chains), list[Result]())
    PASSED.write_text("".join(f"{name}\n" for name in sorted(frozenset().union(*(one.passed for one in results)))))
    print("", *table(results), sep="\n")
    return int(any(result.problem for result in results))


if __name__ == "__main__":
    sys.exit(main())
