"""Revisions of a user's repository: what they are called, and that reading them changes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from repositories import Made

from dragstrip.errors import BadUsage, StageError
from dragstrip.revision.repository import Repository


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """A repository with two commits, in a folder with a blank in its name; the cache is the test's own."""
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    made = Made(tmp_path / "a path" / "with blanks")
    made.commit("first", a_txt="1")
    made.commit("second", a_txt="2")
    return (yield made)


def test_a_revision_has_the_name_that_was_typed_and_its_commit(made: Made) -> None:
    repository = Repository(made.folder)
    made.git("tag", "v1.0", "HEAD~1")
    head, tag = made.git("rev-parse", "HEAD"), made.git("rev-parse", "v1.0")
    assert repository.revision("main").name == f"main ({head[:7]})"
    assert (
        repository.revision("v1.0") == repository.revision("v1.0^{commit}") or repository.revision("v1.0").commit == tag
    )
    assert repository.revision(head[:9]).name == head[:7]
    assert repository.revision("v1.0").subject == "first"


def test_head_and_the_working_tree_have_the_name_of_their_branch(made: Made) -> None:
    """Which is what a reader knows; without a branch there is none to show."""
    repository, head = Repository(made.folder), made.git("rev-parse", "--short=7", "HEAD")
    made.git("checkout", "--quiet", "-b", "feature/x=1")
    assert repository.revision("HEAD").name == f"feature/x-1 ({head})"
    assert repository.working_tree().name == f"feature/x-1 ({head})"
    made.write(a_txt="changed")
    assert repository.working_tree().name == f"feature/x-1 ({head} + changes)"
    made.git("checkout", "--quiet", "--detach")
    assert repository.revision("HEAD").name == f"HEAD ({head})"
    assert repository.working_tree().name == f"working tree ({head} + changes)"


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("named", ["", "bench/mine.toml"])
def test_the_project_file_is_no_change_of_the_working_tree(made: Made, tracked: bool, staged: bool, named: str) -> None:
    """It counts for all revisions, whatever the working tree's version of it is."""
    file = made.folder / (named or "dragstrip.toml")
    file.parent.mkdir(exist_ok=True)
    if tracked:
        file.write_text("old")
        made.commit("with it")
    file.write_text("new")
    if staged:
        made.git("add", "--all")
    before, repository = made.state(), Repository(made.folder, file if named else None)
    assert not repository.working_tree().changed
    made.write(b_txt="another")
    changed = repository.working_tree()
    assert changed.changed
    names = made.git("ls-tree", "-r", "--name-only", "HEAD").split()
    listed = repository._own_git("ls-tree", "-r", "--name-only", changed.commit).split()
    assert listed == sorted([*names, "b.txt"])
    (made.folder / "b.txt").unlink()
    assert made.state() == before


def test_a_revision_that_does_not_exist_is_refused_with_the_way_to_find_one(made: Made) -> None:
    with pytest.raises(BadUsage, match=r"'nothing' is not a revision of .*git branch -a"):
        Repository(made.folder).revision("nothing")


def test_a_word_that_git_would_take_for_an_option_is_a_revision(made: Made) -> None:
    with pytest.raises(BadUsage, match="'--all' is not a revision"):
        Repository(made.folder).revision("--all")


def test_a_folder_without_git_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(BadUsage, match="is not a git repository"):
        Repository(tmp_path / "plain")


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    empty = Made(tmp_path / "empty")
    with pytest.raises(BadUsage, match="has no commit yet"):
        Repository(empty.folder).working_tree()


def test_the_working_tree_without_changes_is_head(made: Made) -> None:
    revision = Repository(made.folder).working_tree()
    assert (revision.commit, revision.changed) == (made.git("rev-parse", "HEAD"), False)


@pytest.mark.parametrize("split", [False, True])
def test_the_working_tree_holds_changed_staged_deleted_and_new_files_but_no_ignored_ones(
    made: Made, tmp_path: Path, split: bool
) -> None:
    """A split index has its other half in a file beside it (git-update-index(1))."""
    made.commit("more", deleted_txt="x", staged_txt="1", _gitignore="*.log\n")
    (made.folder / "deleted.txt").unlink()
    made.write(a_txt="changed", staged_txt="2", new_txt="new", ignored_log="log")
    made.git("add", "staged.txt")
    made.write(staged_txt="3")
    made.git("update-index", "--split-index" if split else "--no-split-index")
    before = made.state()
    repository = Repository(made.folder)
    revision = repository.working_tree()
    assert revision.changed
    assert "+ changes" in revision.name
    repository.check_out(revision.commit, tmp_path / "out")
    found = {file.name: file.read_text() for file in (tmp_path / "out").iterdir() if file.name != ".git"}
    assert found == {"a.txt": "changed", "staged.txt": "3", "new.txt": "new", ".gitignore": "*.log\n"}
    assert made.state() == before


def test_a_file_changed_right_after_it_was_added_is_read_again(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the size and the time that the index holds (git's "racy" files); so only its content shows the change."""
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.trustctime=false'")  # a file's ctime, which no program can set
    for text in ("added", "later"):
        made.write(a_txt=text)
        os.utime(made.folder / "a.txt", (10**9, 10**9))
        if text == "added":
            made.git("add", "a.txt")
            os.utime(made.folder / ".git" / "index", (10**9, 10**9))
    repository = Repository(made.folder)
    repository.check_out(repository.working_tree().commit, tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_text() == "later"


def test_the_same_files_are_the_same_commit(made: Made) -> None:
    made.write(a_txt="changed")
    repository = Repository(made.folder)
    assert repository.working_tree() == repository.working_tree()


def test_files_excluded_for_one_clone_only_are_ignored_too(made: Made) -> None:
    (made.folder / ".git" / "info" / "exclude").write_text("private.txt\n")
    made.write(private_txt="secret")
    assert not Repository(made.folder).working_tree().changed


def test_a_detached_head_is_compared_like_any_other(made: Made) -> None:
    made.git("checkout", "--quiet", "--detach", "HEAD~1")
    repository = Repository(made.folder)
    assert repository.working_tree().subject == "first"
    assert repository.merge_base().subject == "first"


def test_the_base_is_where_the_branch_left_the_default_one(made: Made) -> None:
    left = made.git("rev-parse", "HEAD")
    made.git("checkout", "--quiet", "-b", "feature")
    made.commit("on the branch", a_txt="3")
    repository = Repository(made.folder)
    assert repository.merge_base().name == f"main ({left[:7]})"
    made.git("checkout", "--quiet", "main")
    made.commit("on main", b_txt="1")
    made.git("checkout", "--quiet", "feature")
    assert repository.merge_base().name == f"base of main ({left[:7]})"
    assert repository.merge_base().commit == left


def test_a_shallow_clone_says_how_to_fetch_what_it_lacks(made: Made, tmp_path: Path) -> None:
    old = made.git("rev-parse", "HEAD~1")
    clone = tmp_path / "shallow"
    made.git("clone", "--quiet", "--depth", "1", made.folder.as_uri(), str(clone))
    repository = Repository(clone)
    with pytest.raises(BadUsage, match="this clone is shallow: fetch it with"):
        repository.revision(old)
    repository.check_out(repository.revision("HEAD").commit, tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_text() == "2"


def test_a_submodule_is_checked_out_from_the_clone_that_is_here(made: Made, tmp_path: Path) -> None:
    library = Made(tmp_path / "library")
    library.commit("library", lib_txt="inside")
    made.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.folder), "vendor")
    made.git("commit", "--quiet", "-m", "with a submodule")
    shutil.rmtree(library.folder)  # it is not asked again
    before = made.state()
    repository = Repository(made.folder)
    repository.check_out(made.git("rev-parse", "HEAD"), tmp_path / "out")
    assert (tmp_path / "out" / "vendor" / "lib.txt").read_text() == "inside"
    assert made.state() == before


def test_a_submodule_s_address_copies_no_other_repository_of_this_machine(made: Made, tmp_path: Path) -> None:
    """Git itself refuses such an address in a revision; a name that leads out of the user's clones fails too."""
    private = Made(tmp_path / "private")
    secret = private.commit("secret", key_txt="secret")
    for name, url in [("x", str(private.folder)), ("x", f"file://{private.folder}"), ("../../../../private/.git", "y")]:
        made.git("update-index", "--add", "--cacheinfo", f"160000,{secret},vendor")
        (made.folder / ".gitmodules").write_text(f'[submodule "{name}"]\n\tpath = vendor\n\turl = {url}\n')
        made.git("add", ".gitmodules")
        made.git("commit", "--quiet", "--message", "hostile")
        out = tmp_path / f"out-{abs(hash(name + url))}"
        with pytest.raises(StageError, match="submodule vendor"):
            Repository(made.folder).check_out(made.git("rev-parse", "HEAD"), out)
        assert "key.txt" not in [file.name for file in out.rglob("*")]


def test_a_submodule_s_path_is_no_pattern(made: Made, tmp_path: Path) -> None:
    """As a pattern it would match another one, which git may then copy from this machine."""
    lib, private = Made(tmp_path / "lib"), Made(tmp_path / "private")
    inside, secret = lib.commit("lib", lib_txt="inside"), private.commit("secret", key_txt="secret")
    made.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(lib.folder), "lib")
    made.git("commit", "--quiet", "--message", "with a submodule")
    (made.folder / ".gitmodules").write_text(
        f'[submodule "lib"]\n\tpath = ":(glob)**"\n\turl = {lib.folder}\n'
        f'[submodule "stolen"]\n\tpath = stolen\n\turl = {private.folder}\n'
    )
    for commit, path in ((inside, ":(glob)**"), (secret, "stolen")):
        made.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    made.git("add", ".gitmodules")
    made.git("commit", "--quiet", "--message", "hostile")
    with pytest.raises(StageError, match="submodule"):
        Repository(made.folder).check_out(made.git("rev-parse", "HEAD"), tmp_path / "out")
    assert not list((tmp_path / "out").rglob("key.txt"))


def test_a_submodule_whose_address_changed_is_fetched_from_the_new_one(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's clone is of the old address, and lacks the new commit."""
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "file")  # what a remote address would be
    old, new = Made(tmp_path / "old"), Made(tmp_path / "new")
    old.commit("old", lib_txt="old")
    later = new.commit("new", lib_txt="new")
    made.git("submodule", "--quiet", "add", str(old.folder), "vendor")
    made.git("commit", "--quiet", "--message", "with a submodule")
    text = (made.folder / ".gitmodules").read_text()
    (made.folder / ".gitmodules").write_text(text.replace(str(old.folder), str(new.folder)))
    made.git("update-index", "--cacheinfo", f"160000,{later},vendor")
    made.git("add", ".gitmodules")
    made.git("commit", "--quiet", "--message", "with another address")
    repository = Repository(made.folder)
    for revision, expected in (("HEAD", "new"), ("HEAD~1", "old")):
        repository.check_out(made.git("rev-parse", revision), tmp_path / expected / "out")
        assert (tmp_path / expected / "out" / "vendor" / "lib.txt").read_text() == expected


def test_a_checkout_that_was_killed_hinders_no_later_one(made: Made, tmp_path: Path) -> None:
    """Git keeps a worktree locked while it is made."""
    repository, out = Repository(made.folder), tmp_path / "out"
    commit = made.git("rev-parse", "HEAD")
    repository.check_out(commit, out)
    (entry,) = (repository.cache / "repository.git" / "worktrees").iterdir()
    (entry / "locked").write_text("initializing")
    shutil.rmtree(out)
    repository.check_out(commit, out)
    assert (out / "a.txt").read_text() == "2"


def test_several_at_once_check_out(made: Made, tmp_path: Path) -> None:
    """From the making of the cache on; each in its own process, as two calls of `diff` are."""
    script = """
import sys
from pathlib import Path
from dragstrip.revision.repository import Repository
repository, out = Repository(Path(sys.argv[1])), Path(sys.argv[2])
for number in range(4):
    repository.check_out(repository.revision("HEAD").commit, out / str(number))
    repository.remove(out / str(number))
"""
    command = [sys.executable, "-c", script, str(made.folder)]
    running = [
        subprocess.Popen([*command, str(tmp_path / f"out{number}")], stderr=subprocess.PIPE, text=True)
        for number in range(6)
    ]
    assert [(process.communicate()[1], process.returncode) for process in running] == [("", 0)] * 6


def test_copies_of_a_closed_repository_are_closed(made: Made, tmp_path: Path) -> None:
    """Whoever can't enter the repository can't enter the cache of it either."""
    made.folder.chmod(0o700)
    repository = Repository(made.folder)
    repository.check_out(made.git("rev-parse", "HEAD"), tmp_path / "out")
    assert repository.cache.stat().st_mode & 0o077 == 0


def test_copies_of_a_repository_that_was_closed_since_are_closed(made: Made, tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_mode & 0o005 != 0o005:
            parent.chmod(0o755)
    repository = Repository(made.folder)
    repository.check_out(made.git("rev-parse", "HEAD"), tmp_path / "out")
    assert repository.cache.stat().st_mode & 0o077 == 0o055
    made.folder.chmod(0o700)
    Repository(made.folder).check_out(made.git("rev-parse", "HEAD"), tmp_path / "again")
    assert repository.cache.stat().st_mode & 0o077 == 0


def test_a_folder_whose_name_ends_with_a_blank_is_itself(tmp_path: Path) -> None:
    for name in ("mine", "mine "):
        Made(tmp_path / name).commit(name, a_txt="1")
    assert Repository(tmp_path / "mine ").top == tmp_path / "mine "


def test_patterns_say_which_files_matter(made: Made) -> None:
    repository = Repository(made.folder)
    first = made.git("rev-parse", "HEAD")
    second = made.commit("readme only", README_md="text")
    third = made.commit("source", a_txt="3")
    keys = [repository.files_key(commit, ["*.txt"]) for commit in (first, second, third)]
    assert keys[0] == keys[1] != keys[2]
    assert len({repository.files_key(commit, []) for commit in (first, second, third)}) == 3


def test_commits_between_two_are_listed_oldest_first(made: Made) -> None:
    good = made.git("rev-parse", "HEAD~1")
    commits = [made.git("rev-parse", "HEAD"), made.commit("third", a_txt="3")]
    repository = Repository(made.folder)
    assert repository.commits(good, commits[-1]) == commits
    with pytest.raises(BadUsage, match="is not an ancestor"):
        repository.commits(commits[-1], good)


def test_variables_of_an_outer_git_lead_nowhere_else(
    made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A git hook runs with GIT_DIR and GIT_INDEX_FILE set."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other-index"))
    assert Repository(made.folder).top == made.folder
    assert not (tmp_path / "other-index").exists()
