"""Slurm as the way to a strip: a killed client's batch job, a killed controller, and what is left of jobs that ask."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import clusters
import labs
import pytest
from races import until

from dragstrip.errors import MachineLost
from dragstrip.extras.lab import slurm
from dragstrip.extras.lab.ledger import Ledger
from dragstrip.extras.lab.matrix import Strip
from dragstrip.extras.lab.strips import StripLink
from dragstrip.extras.lab.task import Inquiry

pytestmark = pytest.mark.skipif(bool(clusters.slurm_lacks()), reason=clusters.slurm_lacks())


def jobs() -> list[str]:
    """Names of jobs that wait or run."""
    said = subprocess.run(["squeue", "--noheader", "--format=%j"], capture_output=True, text=True, check=False)
    return said.stdout.split()


@pytest.mark.thorough
def test_a_race_outlives_its_client_and_the_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next client takes its record; a job whose client was killed does not keep the machine."""
    with monkeypatch.context() as patch, labs.door(tmp_path) as door:
        patch.setenv("SLURM_CONF", "")  # is set back
        with clusters.slurm(tmp_path, ["s0"]) as cluster:
            file = labs.matrix(tmp_path, cells=2, strips=1, how=labs.SLURM, door=door)
            with labs.held_race(file) as begun:
                first = labs.client(file)
                begun()
                first.kill()
                first.communicate()
                # As an earlier client's: killed while it waited for the machine.
                asks = "dragstrip-lab.s0-asks-1"
                words = ["srun", "--exclusive", "--ntasks=1", "--nodelist=s0", f"--job-name={asks}", "true"]
                with subprocess.Popen(words, stderr=subprocess.DEVNULL) as waiting:
                    until(lambda: asks in jobs(), 120, "it never waited")
                    waiting.kill()
            with labs.client(file) as second:
                os.kill(cluster.pid("controller"), 9)
                output, _ = second.communicate()
            assert second.returncode == 0, output.decode()
            labs.assert_each_once(file, 2)
            with closing(Ledger(tmp_path / "lab", write=False)) as ledger:
                assert {attempt.outcome for attempt in ledger.attempts()} == {"stored"}
            assert jobs() == []


@pytest.mark.thorough
def test_slurms_refusals_and_a_commands_failure_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that does not exist, a command that fails there, and a wait that is interrupted."""
    with monkeypatch.context() as patch:
        patch.setenv("SLURM_CONF", "")
        with clusters.slurm(tmp_path, ["s0"]):
            nothing = Inquiry(contestants=(), workloads=())
            for options, program, why in (
                ("--nodelist=absent", "dragstrip", "srun: error: .*Invalid node name"),
                ("--nodelist=s0", "ls", "No such file or directory .exit code 2."),
            ):
                fields = Strip.model_validate({"name": "s", "slurm": (options,), "dragstrip": program})
                with pytest.raises(MachineLost, match=why):
                    StripLink(fields=fields, folder=tmp_path, work="lab/s").inquire(nothing)
            taken = subprocess.Popen(["srun", "--exclusive", "--nodelist=s0", "--job-name=other", "sleep", "100"])
            until(lambda: jobs() == ["other"], 120, "it never ran")
            asking = slurm.Jobs("s", "lab/s", ["--nodelist=s0"], tmp_path)
            with ThreadPoolExecutor(1) as pool:
                asked = pool.submit(asking.output_of, ["true"], "", 60.0)
                until(lambda: len(jobs()) == 2, 120, "it never asked")
                slurm.interrupt()
                with pytest.raises(MachineLost, match="interrupted"):
                    asked.result()
            assert jobs() == ["other"]
            taken.terminate()
            taken.wait()
