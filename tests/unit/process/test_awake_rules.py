"""When cores are kept busy, and what CPU time a control group allows."""

from __future__ import annotations

import pytest

from dragstrip.process import keep_awake


def test_cores_that_are_not_our_own_are_not_kept_busy() -> None:
    """Two hardware threads of one physical core would slow each other; then the engine sleeps, too."""
    assert "one physical core" in keep_awake.against_spinning([0, 1], [(0, 1), (0, 1)])
    assert keep_awake.against_spinning([0], [(0, 1)]) is None or keep_awake.cpu_quota() is not None
    assert keep_awake.usual_wait(None, shared=False) == "poll"
    assert keep_awake.usual_wait(None, shared=True) == keep_awake.usual_wait("a reason", shared=False) == "sleep"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"proc": "0::/a/b", "a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5),
        (
            {"proc": "3:cpu,cpuacct:/x\n0::/", "cpu/x/cpu.cfs_quota_us": "50000", "cpu/x/cpu.cfs_period_us": "100000"},
            0.5,
        ),
        ({"proc": "3:cpu:/x", "cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, None),
    ],
)
def test_a_limit_of_cpu_time_is_read_wherever_it_stands(files, cores, monkeypatch) -> None:
    """Of control groups of both versions, in the group itself or above it."""
    monkeypatch.setattr(
        keep_awake,
        "_text",
        lambda path: files.get("proc" if path == "/proc/self/cgroup" else path.removeprefix("/sys/fs/cgroup/"), ""),
    )
    assert keep_awake.cpu_quota() == cores
