"""A user's git repository, read only: revisions, the working tree as a commit, and checkouts in the cache.

Everything that git has to write (checkouts, an index, the working tree's files as objects) goes into a repository of
our own in the cache, which borrows the user's objects (gitrepository-layout(5), ``objects/info/alternates``). So
neither the user's working tree, nor index, branches or worktrees change.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from dragstrip.contender import cache_dir
from dragstrip.errors import BadUsage, StageError
from dragstrip.revision.project import FILE_NAME

#: Seconds that one call of git may take: a checkout of a large repository on a slow disk.
GIT_S = 600.0

#: The word for the files as they are now, committed or not.
WORKING_TREE = "working tree"

#: Git asks nothing, writes no index only to refresh it, and speaks English.
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}

#: Of a commit made of the working tree: a fixed author and time, so that the same files have the same name.
_AUTHOR = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "dragstrip"), ("EMAIL", "dragstrip@localhost"), ("DATE", "@0 +0000"))
}

#: Variables of a hook or an outer git command, which would lead git to another repository.
_OUTER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A commit of the repository, or of its working tree.

    Args:
        name: as results show it, like ``main (3fa2b1c)``.
        commit: the full name of the commit.
        subject: the first line of its message.
        changed: it is the working tree with changes that no commit has.
    """

    name: str
    commit: str
    subject: str
    changed: bool = False


class Repository:
    """A user's repository, and our own repository in the cache that borrows its objects.

    Args:
        folder: any folder of the user's working tree.
        project: the file that says how revisions are raced; None: dragstrip.toml at the top. It counts for all
            revisions, so it is not among the changes of the working tree.

    Raises:
        BadUsage: it is in no git repository, git is missing, or the repository is bare.
    """

    def __init__(self, folder: Path, project: Path | None = None) -> None:
        if shutil.which("git") is None:
            raise BadUsage("git is not installed; install it with the system's package manager")
        asked = _run(["git", "-C", str(folder), "rev-parse", "--show-toplevel"])
        if asked.returncode != 0:
            raise BadUsage(f"{folder} is not a git repository with a working tree ({_last_line(asked.stderr)})")
        self.top = Path(asked.stdout.removesuffix("\n"))
        self._project = project.absolute() if project else self.top / FILE_NAME
        key = hashlib.sha256(str(self.top.resolve()).encode()).hexdigest()[:12]
        plain = re.sub(r"[^A-Za-z0-9.+-]+", "-", self.top.name) or "repository"
        self.cache = cache_dir() / "revisions" / f"{plain}-{key}"
        self._own = self.cache / "repository.git"

    def git(self, *words: str) -> str:
        """What git prints about the user's repository, without the last line end.

        Raises:
            BadUsage: git refuses; with its last line.
        """
        answer = _run(["git", "-C", str(self.top), *words])
        if answer.returncode != 0:
            raise BadUsage(f"git {' '.join(words)}: {_last_line(answer.stderr)}")
        return answer.stdout.rstrip("\n")

    def _ask(self, *words: str) -> str | None:
        """The same; None if git refuses."""
        answer = _run(["git", "-C", str(self.top), *words])
        return answer.stdout.rstrip("\n") if answer.returncode == 0 else None

    @property
    def shallow(self) -> bool:
        """Whether it lacks the history before some commit."""
        return self._ask("rev-parse", "--is-shallow-repository") == "true"

    def revision(self, word: str) -> Revision:
        """A revision by a branch, a tag, a commit or any other name that git knows.

        Raises:
            BadUsage: the repository does not have it.
        """
        if word == WORKING_TREE:
            return self.working_tree()
        commit = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}")
        if commit is None and self._ask("rev-parse", "--verify", "--quiet", "HEAD") is None:
            raise BadUsage(f"{self.top} has no commit yet; `git add` the files and `git commit` them")
        if commit is None:
            remedy = "git branch -a and git tag list names"
            if self.shallow:
                remedy = f"this clone is shallow: fetch it with `git fetch origin {word}` or `git fetch --unshallow`"
            raise BadUsage(f"{word!r} is not a revision of {self.top}; {remedy}")
        short = commit[:7]
        shown = ((self._branch() if word == "HEAD" else None) or word).replace("=", "-")
        shown = shown if len(shown) <= 48 else f"{shown[:47]}…"
        name = short if commit.startswith(word) else f"{shown} ({short})"
        return Revision(name=name, commit=commit, subject=self._subject(commit))

    def _branch(self) -> str | None:
        """The name of the current branch; None if HEAD is detached."""
        return self._ask("symbolic-ref", "--quiet", "--short", "HEAD")

    def _subject(self, commit: str) -> str:
        return self.git("show", "--no-patch", "--format=%s", commit)

    def default_branch(self) -> str:
        """The name of the branch that others are made from.

        Raises:
            BadUsage: nothing says which it is.
        """
        if remote := self._ask("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"):
            return remote.removeprefix("refs/remotes/")
        usual = self._ask("config", "init.defaultBranch")
        for name in filter(None, (usual, "main", "master", "trunk", "develop", "origin/main", "origin/master")):
            if self._ask("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}") is not None:
                return name
        raise BadUsage("nothing says which branch is the default one; name two revisions: dragstrip diff BASE HEAD")

    def merge_base(self) -> Revision:
        """The commit at which HEAD left the default branch.

        Raises:
            BadUsage: there is none, or a shallow clone does not have it.
        """
        branch = self.default_branch()
        commit = self._ask("merge-base", "HEAD", branch)
        if commit is None:
            remedy = "name two revisions: dragstrip diff BASE HEAD"
            if self.shallow:
                remedy = (
                    "this clone is shallow: fetch the history with `git fetch --unshallow` (in GitHub Actions "
                    "`fetch-depth: 0`), or name two revisions"
                )
            raise BadUsage(f"HEAD and {branch} have no common commit here; {remedy}")
        tip = self._ask("rev-parse", f"{branch}^{{commit}}")
        name = f"{branch} ({commit[:7]})" if tip == commit else f"base of {branch} ({commit[:7]})"
        return Revision(name=name.replace("=", "-")[:60], commit=commit, subject=self._subject(commit))

    def commits(self, good: str, bad: str) -> list[str]:
        """The commits after ``good`` up to ``bad``, oldest first, along the first parents.

        Raises:
            BadUsage: ``good`` is not among the ancestors of ``bad``.
        """
        if self._ask("merge-base", "--is-ancestor", good, bad) is None:
            remedy = "; this clone is shallow: `git fetch --unshallow` fetches the history" if self.shallow else ""
            raise BadUsage(f"{good[:12]} is not an ancestor of {bad[:12]}: name an older revision as GOOD{remedy}")
        listed = self.git("rev-list", "--reverse", "--first-parent", "--ancestry-path", f"{good}..{bad}").split()
        return listed or self.git("rev-list", "--reverse", f"{good}..{bad}").split()

    def working_tree(self) -> Revision:
        """The files as they are now: changed, deleted and new ones, without those that git ignores.

        It becomes a commit of our own repository; the user's index is copied, not used.
        """
        of_head = self.revision("HEAD")
        head = of_head.commit
        self._prepare_own()
        users = Path(self.git("rev-parse", "--path-format=absolute", "--git-path", "index"))
        with TemporaryDirectory(prefix="index-", dir=self.cache) as folder:
            # A split index (git-update-index(1)) has its other half beside it. With their times: by them git knows
            # which files may have changed right after they were added.
            for part in (users, *users.parent.glob("sharedindex.*")):
                if part.is_file():
                    shutil.copy2(part, folder)
            env = {"GIT_INDEX_FILE": f"{folder}/index", "GIT_WORK_TREE": str(self.top)}
            self._own_git("add", "--all", ".", env=env)
            self._restore_project(head, env)
            tree = self._own_git("write-tree", env=env)
        if tree == self.git("rev-parse", f"{head}^{{tree}}"):
            return of_head
        commit = self._own_git("commit-tree", tree, "-p", head, "-m", "the working tree", env=_AUTHOR)
        name = of_head.name if self._branch() else f"{WORKING_TREE} ({head[:7]})"
        name = f"{name.removesuffix(')')} + changes)"
        return Revision(name=name, commit=commit, subject=f"changes on top of {head[:7]}", changed=True)

    def _restore_project(self, head: str, env: Mapping[str, str]) -> None:
        """Sets the project file in an index to its version in a commit, or removes it if the commit has none."""
        if not self._project.is_relative_to(self.top):
            return
        name = self._project.relative_to(self.top).as_posix()
        if listed := self._own_git("ls-tree", head, "--", name, env=env):
            mode, _, blob = listed.partition("\t")[0].split()
            self._own_git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}", env=env)
        else:
            self._own_git("update-index", "--force-remove", "--", name, env=env)

    def files_key(self, commit: str, patterns: Sequence[str]) -> str:
        """A hash over the names, modes and contents of a commit's files that match; all files without a pattern."""
        self._prepare_own()
        if not patterns:
            return self._own_git("rev-parse", f"{commit}^{{tree}}")
        listed = self._own_git("ls-tree", "-r", "--full-tree", commit)
        matching = set(self._matching(commit, patterns))
        lines = [line for line in listed.splitlines() if line.partition("\t")[2] in matching]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def _matching(self, commit: str, patterns: Sequence[str]) -> list[str]:
        """Files of a commit that patterns of git name (gitglossary(7), pathspec)."""
        index = self.cache / f"index-{os.getpid()}-files"
        env = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(self.top)}
        try:
            self._own_git("read-tree", commit, env=env)
            return self._own_git("ls-files", "--cached", "--", *patterns, env=env).splitlines()
        finally:
            index.unlink(missing_ok=True)

    def check_out(self, commit: str, folder: Path) -> None:
        """Checks a commit out into a folder that does not exist yet, with its submodules.

        Raises:
            StageError: git can't; with its last line.
        """
        self._prepare_own()
        with self._alone():
            self._forget_broken()
            self._own_git("worktree", "add", "--quiet", "--force", "--detach", str(folder), commit)
        modules = Path(self.git("rev-parse", "--path-format=absolute", "--git-path", "modules"))
        self._check_out_modules(folder, modules)

    def _check_out_modules(self, folder: Path, modules: Path) -> None:
        """Checks out the submodules of a checkout: from the user's own clones of them, otherwise from their addresses.

        Git reads other repositories of this machine only where the user has cloned them: an address in a revision could
        name a private one.

        Args:
            modules: the folder of the user's clones.
        """
        names = {path: name for name, path in self._modules_of(folder).items()}
        listed = _run(["git", "-C", str(folder), "ls-files", "--stage", "-z"]).stdout.split("\0")
        links = (entry.partition("\t")[2] for entry in listed if entry.startswith("160000 "))
        for path in (path for path in links if path in names):
            name = names[path]
            clone = modules / name
            safe = not Path(name).is_absolute() and ".." not in Path(name).parts
            # The path is one of the revision's names: as a pattern it could match other submodules.
            submodule = ["git", "--literal-pathspecs", "-C", str(folder), "submodule", "--quiet"]
            update = [*submodule, "update", "--init", "--", path]
            answer = None
            if safe and clone.is_dir():
                given = {f"submodule.{name}.url": str(clone), "protocol.file.allow": "always"}
                answer = _run(update, _configured(given))
                if answer.returncode != 0:  # this revision may have another address than the clone
                    half = _run(
                        ["git", "-C", str(folder), "rev-parse", "--path-format=absolute", "--git-path", "modules"]
                    )
                    shutil.rmtree(Path(half.stdout.removesuffix("\n")) / name, ignore_errors=True)
                    shutil.rmtree(folder / path, ignore_errors=True)
            if answer is None or answer.returncode != 0:
                _run([*submodule, "sync", "--", path])
                answer = _run(update)
            if answer.returncode != 0:
                raise StageError(f"submodule {path}: {_last_line(answer.stderr)} (in {folder})")
            if safe:
                self._check_out_modules(folder / path, clone / "modules")

    def _modules_of(self, folder: Path) -> dict[str, str]:
        """The paths of the submodules that a checkout declares, by name."""
        if not (folder / ".gitmodules").is_file():
            return {}
        words = ["config", "--file", ".gitmodules", "--get-regexp", "-z", r"^submodule\..*\.path$"]
        entries = _run(["git", "-C", str(folder), *words]).stdout.split("\0")
        found = (entry.partition("\n") for entry in entries if entry)
        return {key.removeprefix("submodule.").removesuffix(".path"): path for key, _, path in found}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Only one process at a time changes our own repository."""
        self.cache.mkdir(parents=True, exist_ok=True)
        with (self.cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _forget_broken(self) -> None:
        """Removes what a killed `git worktree add` has left: git keeps it locked, for a checkout that is not there."""
        for entry in (self._own / "worktrees").glob("*"):
            try:
                text = (entry / "gitdir").read_text(errors="surrogateescape").strip()
            except OSError:
                text = ""
            if not text or not Path(text).exists():
                shutil.rmtree(entry, ignore_errors=True)

    def remove(self, folder: Path) -> None:
        """Removes a checkout; one that is not there is none to remove."""
        shutil.rmtree(folder, ignore_errors=True)
        if self._own.is_dir():
            with self._alone():
                self._forget_broken()

    def _own_git(self, *words: str, env: Mapping[str, str] = MappingProxyType({})) -> str:
        answer = _run(["git", "--git-dir", str(self._own), *words], env, self.top)
        if answer.returncode != 0:
            raise StageError(f"git {' '.join(words[:2])}: {_last_line(answer.stderr)} (for {self.top})")
        return answer.stdout.rstrip("\n")

    def _prepare_own(self) -> None:
        """Makes our own repository, and lets it find what the user's has found since."""
        with self._alone():
            self._make_own()

    def _make_own(self) -> None:
        # Who may not enter the user's repository may not enter copies of it; it may have been closed since.
        closed = any(not folder.stat().st_mode & 0o001 for folder in (self.top, *self.top.parents))
        self._own.parent.chmod(0o700 if closed else 0o755)
        if not (self._own / "HEAD").is_file():
            how = self._ask("rev-parse", "--show-object-format") or "sha1"
            made = _run(["git", "init", "--quiet", "--bare", f"--object-format={how}", str(self._own)])
            if made.returncode != 0:
                raise StageError(f"{self._own} can't be made: {_last_line(made.stderr)}")
            self._own_git("config", "gc.auto", "0")  # nothing here refers to the commits that it borrows
        paths = {
            name: Path(self.git("rev-parse", "--path-format=absolute", "--git-path", name))
            for name in ("objects", "shallow", "info/exclude", "info/attributes")
        }
        (self._own / "objects" / "info" / "alternates").write_text(f"{paths['objects']}\n", encoding="utf-8")
        for name in ("shallow", "info/exclude", "info/attributes"):
            if paths[name].is_file():
                shutil.copyfile(paths[name], self._own / name)
            else:
                (self._own / name).unlink(missing_ok=True)


def _configured(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings for one call of git; `-c` could not have a name with an equals sign."""
    pairs = [
        (f"GIT_CONFIG_{what}_{number}", text)
        for number, pair in enumerate(settings.items())
        for what, text in zip(("KEY", "VALUE"), pair, strict=True)
    ]
    return {"GIT_CONFIG_COUNT": str(len(settings)), **dict(pairs)}


def _run(
    words: Sequence[str], env: Mapping[str, str] = MappingProxyType({}), folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """One call of git, without the variables of an outer one.

    Raises:
        StageError: it does not end.
    """
    inherited = {key: value for key, value in os.environ.items() if key not in _OUTER}
    try:
        return subprocess.run(
            words, env={**inherited, **_QUIET, **env}, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="surrogateescape", timeout=GIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise StageError(f"`{' '.join(words[:6])}` did not end within {GIT_S:g} s") from error


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return ((fatal or lines or ["no reason given"])[0]).removeprefix("fatal: ").removeprefix("error: ")
