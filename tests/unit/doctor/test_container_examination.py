"""What ``dragstrip doctor`` says about containers, and what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dragstrip.doctor import containers
from dragstrip.doctor.finding import (
    Finding,
    NamespaceCause,
    Status,
    Subject,
    SubordinateIds,
    UserNamespaces,
)
from dragstrip.report.doctor import finding_text, remedy_text


def test_this_machine_is_examined_and_everything_that_fails_has_a_remedy() -> None:
    findings = list(containers.findings())
    subjects = [finding.subject for finding in findings]
    assert subjects[:3] == [Subject.USER_NAMESPACES, Subject.BUBBLEWRAP, Subject.ENGINES]
    for finding in findings:
        assert finding_text(finding)
        assert bool(remedy_text(finding)) == (finding.status is not Status.PASS)


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", NamespaceCause.APPARMOR),
        ("kernel/apparmor_restrict_unprivileged_userns", "0", NamespaceCause.OTHER),
        ("user/max_user_namespaces", "0", NamespaceCause.NUMBER),
        ("kernel/unprivileged_userns_clone", "0", NamespaceCause.SWITCH),
        ("kernel/absent", "0", NamespaceCause.OTHER),
    ],
)
def test_the_cause_of_refused_namespaces_is_read_from_the_settings(
    tmp_path: Path, name: str, value: str, cause: NamespaceCause
) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(f"{value}\n")
    assert containers.cause_of(tmp_path) is cause
    finding = Finding(Subject.USER_NAMESPACES, Status.WARN, UserNamespaces(cause, "unshare: Operation not permitted"))
    assert "unshare: Operation not permitted" in finding_text(finding)
    assert ("AppArmor" in remedy_text(finding)) == (cause is NamespaceCause.APPARMOR)
    assert remedy_text(finding)


def test_subordinate_ids_are_added_up_by_name_and_number(tmp_path: Path) -> None:
    file = tmp_path / "subuid"
    file.write_text("ann:100000:60000\n1000:200000:5536\nbob:300000:65536\nann:bad\n")
    tool = shutil.which("newuidmap") is not None
    found = containers.subordinate_ids("ann", 1000, file)
    assert found.seen == SubordinateIds("ann", 65_536, tool)
    assert (found.status is Status.PASS) == tool
    none = containers.subordinate_ids("eve", 1001, file)
    assert none.status is Status.WARN
    assert "usermod --add-subuids" in remedy_text(none)
    assert containers.subordinate_ids("eve", 1001, tmp_path / "absent").seen == SubordinateIds("eve", 0, tool)
