"""Types the README's commands where nothing is installed: in roots that debootstrap made, as root and as another user.

    python tests/fresh.py                                   # both releases, root and user
    python tests/fresh.py --only trixie-user                # one of them
    python tests/fresh.py --revision 249e8e46 --keep        # an older state of the checkout; the roots stay

A root is a minimal Debian (`debootstrap --variant=minbase`) with this machine's settings of package managers and its
Rust toolchain, which the README names as a prerequisite. Mounts and processes are in namespaces of their own
(unshare(1)), so nothing of them stays. Commands come from README.md: the page and this check can't part. Base roots are
kept below ~/.cache/dragstrip-fresh, by suite and day. Each root's output goes to runs/fresh/NAME.log; at the end a
table has the seconds of each command, the installed packages, and the tests that passed and were skipped. It needs root
and debootstrap. Exit code 1 where a command failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "runs" / "fresh"
BASES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragstrip-fresh"

SUITES = ("bookworm", "trixie")
USERS = ("root", "user")

#: Settings of package managers that a machine may need to reach its registries, by their paths on both sides.
SETTINGS = ("/etc/pip.conf", "/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt", "/usr/etc/npmrc")
#: The same in the home folder.
HOME_SETTINGS = (".npmrc", ".config/pip/pip.conf", ".cargo/config.toml", ".config/go/env")

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
    skips: Counter[str] = field(default_factory=Counter)
    problem: str = ""


def commands_of(page: str) -> tuple[str, list[str]]:
    """The command that installs the prerequisites, and the two commands that do all the set-up, from README.md."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    before = next((line for line in lines if "apt-get install" in line), PREREQUISITES)
    return before, [line for line in lines if line in ("make race", "make test")]


def sources() -> tuple[str, str]:
    """The address of this machine's Debian mirror, and that of its security updates ("": none), from apt's own files."""
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
    mirror, security = sources()
    lines = [f"deb {mirror} {suite} main", f"deb {mirror} {suite}-updates main"]
    lines += [f"deb {security} {suite}-security main"] if security else []
    (root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
    for path in Path("/etc/apt/apt.conf.d").iterdir():
        if _not_of_a_package(path) and not (root / str(path)[1:]).exists():
            shutil.copy(path, root / "etc/apt/apt.conf.d")
    pairs = [(Path(name), root / name[1:]) for name in SETTINGS]
    pairs += [(Path.home() / name, root / str(home)[1:] / name) for name in HOME_SETTINGS]
    for ours, theirs in pairs:
        if ours.exists():
            theirs.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ours, theirs)


class Fresh:
    """A root of its own: commands run in it as root or as ``user``; what they print goes to a log."""

    def __init__(self, folder: Path, suite: str, user: str, log: Path, *, rust: bool = True) -> None:
        self.folder, self.user, self.rust = folder, user, rust
        self.home = Path("/root" if user == "root" else f"/home/{user}")
        self.log = log.open("w+", encoding="utf-8", errors="replace")
        subprocess.run(["cp", "-a", "--reflink=auto", f"{base(suite)}/.", str(folder)], check=True)
        folder.chmod(0o755)
        if user != "root":
            self.run(f"useradd --create-home --shell /bin/bash {user}", as_root=True)
        settle(folder, suite, self.home)
        if user != "root":
            self.run(f"chown -R {user}: {self.home}", as_root=True)

    def run(self, words: str, *, as_root: bool = False, where: str = "/") -> int:
        """Exit code of a shell's command; its output follows what the log has."""
        user = "root" if as_root else self.user
        toolchain = subprocess.run(["rustc", "--print", "sysroot"], stdout=subprocess.PIPE, text=True, check=True).stdout
        # The toolchain is the machine's, everything that cargo writes is the root's own.
        path = ("/opt/rust/bin:" if self.rust else "") + "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        home = "/root" if user == "root" else self.home
        bindings = "" if not self.rust else (
            f"mkdir -p {self.folder}/opt/rust && mount --bind -o ro {toolchain.strip()} {self.folder}/opt/rust &&"
        )  # fmt: skip
        inside = f"cd {where} && {words}"
        script = (
            f"mount --make-rprivate / && mount -t proc proc {self.folder}/proc && mount --rbind /dev {self.folder}/dev && "
            f"mount --rbind /sys {self.folder}/sys && {bindings} "
            f"exec chroot --userspec={user} {self.folder} "
            f"env -i HOME={home} USER={user} PATH={path} LANG=C.UTF-8 sh -c {shlex.quote(inside)}"
        )
        self.log.write(f"\n$ {words}\n")
        self.log.flush()
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
        ).returncode  # fmt: skip

    def said(self, since: int = 0) -> str:
        self.log.flush()
        self.log.seek(since)
        text = self.log.read()
        self.log.seek(0, os.SEEK_END)
        return text

    def packages(self) -> set[str]:
        status = (self.folder / "var/lib/dpkg/status").read_text(errors="replace")
        return set(re.findall(r"^Package: (\S+)\nStatus: install ok installed", status, re.MULTILINE))


@contextmanager
def fresh(suite: str, user: str, name: str, *, keep: bool = False, rust: bool = True) -> Iterator[Fresh]:
    """A fresh root, removed at the end."""
    LOGS.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"dragstrip-fresh-{name}-", dir="/var/tmp"))
    try:
        yield Fresh(folder, suite, user, LOGS / f"{name}.log", rust=rust)
    finally:
        print(f"fresh: {folder} is kept", flush=True) if keep else _remove(folder)


def tests_of(text: str) -> Counter[str]:
    """Tests by outcome, as pytest's and cargo's last lines count them."""
    counts: Counter[str] = Counter()
    ends = [line for line in text.splitlines() if re.match(r"(=* ?\d+ (passed|failed|skipped)|test result: )", line)]
    for number, outcome in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", "\n".join(ends)):
        counts[outcome.removesuffix("s") if outcome.startswith("error") else outcome] += int(number)
    return counts


def skips_of(text: str) -> Counter[str]:
    """Reasons of skipped tests with their number, as pytest's summary (-ra) has them."""
    found = re.findall(r"^SKIPPED \[(\d+)\] \S+ (.*)$", text, re.MULTILINE)
    reasons: Counter[str] = Counter()
    for number, reason in found:
        reasons[reason] += int(number)
    return reasons


def pasted(text: str) -> str:
    """The command that the build prints for what is missing, as root would type it; "": none."""
    found = re.search(r"Paste: (.*)$", text, re.MULTILINE)
    return found.group(1).replace("sudo ", "") if found else ""


def race_and_test(suite: str, user: str, revision: str, keep: bool) -> Result:
    """The README's words in one root, one after the other; the first failure ends it."""
    name = f"{suite}-{user}"
    before, typed = commands_of(_show(revision, "README.md"))
    result = Result(name, [])
    with fresh(suite, user, name, keep=keep) as root:
        if root.run(f"apt-get update -qq && {before.replace('sudo ', '')} -y --no-install-recommends", as_root=True):
            return _failed(result, root, "the prerequisites can't be installed")
        checkout = root.home / "dragstrip"
        there = root.folder / str(checkout)[1:]
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(there)], check=True)
        subprocess.run(["git", "-C", str(there), "checkout", "--quiet", revision], check=True)
        # What a run leaves that was cut off: an environment without pip. Debian's python3 alone makes it.
        root.run(f"python3 -m venv --without-pip {checkout}/.venv && chown -R {user}: {checkout}", as_root=True)
        had = root.packages()
        for words in typed:
            since, begun = root.log.tell(), time.monotonic()
            code = root.run(words, where=str(checkout))
            # An ordinary user is told what root must install; it works as it is printed.
            if code and user != "root" and (paste := pasted(root.said(since))):
                code = root.run(paste.replace("apt-get install", "DEBIAN_FRONTEND=noninteractive apt-get install"), as_root=True)
                code = code or root.run(words, where=str(checkout))
            said = root.said(since)
            result.typed.append(Typed(words, time.monotonic() - begun, code, tests_of(said)))
            result.skips += skips_of(said)
            print(f"fresh: {name}: {words}: exit code {code} after {time.monotonic() - begun:.0f} s", flush=True)
            if code:
                return _failed(result, root, f"{words} failed with exit code {code}")
        result.packages = len(root.packages() - had)
    return result


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
        if not result.typed:
            lines.append(f"| {result.name} | | | | | | **{result.problem}** |")
    for result in results:
        lines += ["", f"skipped in {result.name}:"] if result.skips else []
        lines += [f"- {number} × {reason}" for reason, number in result.skips.most_common()]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Types the README's commands in fresh roots.")
    names = [f"{suite}-{user}" for suite in SUITES for user in USERS]
    parser.add_argument("--only", default=",".join(names), help=f"some of {','.join(names)}, with commas between them")
    parser.add_argument("--revision", default="HEAD", help="the commit to try")
    parser.add_argument("--keep", action="store_true", help="leave the roots, and say where")
    parser.add_argument("--at-once", type=int, default=2, help="roots at a time")
    chosen = parser.parse_args()
    wanted = chosen.only.split(",")
    if unknown := [name for name in wanted if name not in names]:
        parser.error(f"--only {','.join(unknown)}: known are {', '.join(names)}")
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        parser.error("it needs root and debootstrap (apt-get install debootstrap)")
    revision = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--verify", f"{chosen.revision}^{{commit}}"],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    for suite in dict.fromkeys(name.partition("-")[0] for name in wanted):
        base(suite)
    with ThreadPoolExecutor(chosen.at_once) as pool:
        jobs = [pool.submit(race_and_test, *name.split("-"), revision, chosen.keep) for name in wanted]
        results = [job.result() for job in jobs]
    print("", *table(results), sep="\n")
    return int(any(result.problem for result in results))


if __name__ == "__main__":
    sys.exit(main())
