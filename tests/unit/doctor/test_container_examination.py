"""What ``dragstrip doctor`` says about containers, and what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dragstrip import image
from dragstrip.doctor import containers
from dragstrip.doctor.finding import DoctorStatus, Subject


def test_this_machine_is_examined_and_everything_that_fails_has_a_remedy() -> None:
    findings = list(containers.findings())
    subjects = [finding.subject for finding in findings]
    assert subjects[:3] == [Subject.USER_NAMESPACES, Subject.BUBBLEWRAP, Subject.ENGINES]
    for finding in findings:
        assert finding.text
        assert bool(finding.remedy) == (finding.status is not DoctorStatus.PASS)


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor forbids it"),
        ("kernel/apparmor_restrict_unprivileged_userns", "0", "root, or a container that allows"),
        ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
        ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1, or root"),
        ("kernel/absent", "0", "root, or a container that allows"),
    ],
)
def test_the_cause_of_refused_namespaces_is_read_from_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, remedy: str
) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(f"{value}\n")
    monkeypatch.setattr(image, "why_no_user_namespace", lambda: "unshare: Operation not permitted")
    finding = next(containers.findings(tmp_path))
    assert (finding.subject, finding.status) == (Subject.USER_NAMESPACES, DoctorStatus.WARN)
    assert finding.text.endswith(", so no container can start: unshare: Operation not permitted")
    assert finding.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("engines", "status", "text"),
    [
        ([image.Examined("podman", "/bin/podman")], "pass", "podman works"),
        (
            [image.Examined("podman", None), image.Examined("docker", "/bin/docker", "no daemon")],
            "warn",
            "podman is not installed; docker does not work (no daemon); images then come from files of `docker save`, "
            "and none can be built here",
        ),
    ],
)
def test_engines_are_named_with_what_they_said(engines: list[image.Examined], status: str, text: str) -> None:
    finding = containers.engines_finding(engines)
    assert (finding.status, finding.text) == (status, text)
    assert ("systemctl start docker" in finding.remedy) == (status == "warn")
    assert finding.numbers == {engine.name: status == "pass" for engine in engines}


def test_subordinate_ids_are_added_up_by_name_and_number(tmp_path: Path) -> None:
    file = tmp_path / "subuid"
    file.write_text("ann:100000:60000\n1000:200000:5536\nbob:300000:65536\nann:bad\n")
    tool = shutil.which("newuidmap") is not None
    found = containers.subordinate_ids("ann", 1000, file)
    assert found.numbers == {"ids": 65_536}
    assert found.text.startswith("ann has 65,536 further ids in /etc/subuid for Podman's containers")
    assert ("`newuidmap` is missing" in found.text) != tool
    assert (found.status is DoctorStatus.PASS) == tool
    none = containers.subordinate_ids("eve", 1001, file)
    assert none.status is DoctorStatus.WARN
    assert "usermod --add-subuids" in none.remedy
    assert containers.subordinate_ids("eve", 1001, tmp_path / "absent").numbers == {"ids": 0}
