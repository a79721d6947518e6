"""What is in `tests/noise/disturbed.csv.gz`, and how one server alone is disturbed.

Each recording was a race of fixed rounds beside an ordered disturbance, none of them void for it.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "src" / "dragstrip" / "data" / "contenders"

#: Distinguishes a marked contender's command line from its twin's: the same file by another path.
MARK = "/\\./"

#: Fields of a block that the table has: nanoseconds, told in microseconds; ``MAY_LACK`` those that may not be readable.
TIMES = ("lead", "counted", "duration", "engine_cpu", "engine_wait")
MAY_LACK = ("server_cpu_ns", "server_wait_ns", "server_runs")


@dataclass(frozen=True)
class Recording:
    """One race to record: ``a`` against ``b`` beside a duty in per cent, of which b alone is hit if ``one_sided``."""

    a: str
    b: str
    duty: int
    one_sided: bool = False

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.a}-{self.b}-{'only-b' if self.one_sided else 'all'}-{self.duty}"


SERVERS = ("nginx-return", "node", "go-native", "tornado")
RECORDINGS = (
    *(Recording(name, name, duty, True) for duty in (20, 40) for name in ("nginx-return", "node")),
    *(Recording(name, name, duty) for duty in (0, 20, 40) for name in SERVERS),
    *(Recording("nginx-return", "node", duty) for duty in (0, 20, 40)),
    *(Recording(name, name, 20, True) for name in ("go-native", "tornado")),
)


def marked(name: str, folder: Path) -> Path:
    """A copy of a shipped definition, ``b-NAME``, whose processes ``MARK`` finds; its folder of definitions."""
    copy = folder / "contenders" / f"b-{name}"
    if not copy.exists():
        shutil.copytree(SHIPPED / name, copy)
        toml = copy / "contender.toml"
        text = re.sub(r'^name = "', 'name = "b-', toml.read_text(), count=1, flags=re.MULTILINE)
        start = re.compile(r"(^\[start\]\ncommand = \[)([^\]]*)(\])", re.MULTILINE)

        def other_way(found: re.Match[str]) -> str:
            words = re.sub(r"\{(scratch|build)\}/", r"{\1}/./", found[2])
            return f"{found[1]}{words}{found[3]}"

        text, count = start.subn(other_way, text)
        if count != 1 or "/./" not in text:
            raise SystemExit(f"{toml}: its start command names no file in {{scratch}} or {{build}} to mark it by")
        toml.write_text(text)
    return folder / "contenders"
