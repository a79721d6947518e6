"""What a race can be judged by: one entry per metric, with its words.

A metric that is added here, with its numbers in ``analysis/numbers.py``, is compared, worded and shown next to the
others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dragstrip.errors import BadUsage

#: The machine's own evidence chooses: throughput, or CPU per request if the machine spoils throughput (``fitness``).
AUTO = "auto"


class PairVerdict(StrEnum):
    """The verdict of an interval on the first of two contenders."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"  #: the interval lies within the margin
    UNDECIDED = "undecided"

    @property
    def separated(self) -> bool:
        """Whether one of the two is faster."""
        return self in (PairVerdict.FASTER, PairVerdict.SLOWER)

    @property
    def turned(self) -> PairVerdict:
        """The same, seen from the second."""
        return {PairVerdict.FASTER: PairVerdict.SLOWER, PairVerdict.SLOWER: PairVerdict.FASTER}.get(self, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Args:
        name: in JSON and on the command line.
        compared: what a ratio is of.
        decides: what the race is about, in words.
        more_is_better: of the numbers themselves.
        lack: what a round must have left in addition to responses, in words after "no valid round of both"; "" if
            nothing.
        sentence: for a pair; takes best, other and ratio. The ratio is of the larger number over the smaller one.
        head: of the column of the numbers themselves, with their unit.
        better, worse, best: the words for the better and the worse contender of a pair, and for the best of several.
        needs: what the worse contender does with its larger number; "" if more is better.
        may_decide: a race may be judged by it; otherwise it is only shown.
        quantile: of an open loop's latencies; "" if it is none. Not by totals: a round's number is the median over its
            passes of the log ratio.
    """

    name: str
    compared: str
    decides: str
    more_is_better: bool
    lack: str
    sentence: str
    head: str
    better: str
    worse: str
    best: str
    needs: str = ""
    may_decide: bool = True
    quantile: str = ""

    @property
    def over(self) -> str:
        """What a ratio of a pair is, the better contender named first."""
        first, second = ("first", "second") if self.more_is_better else ("second", "first")
        return f"{self.compared}, the {first} over the {second}"

    def word(self, verdict: PairVerdict) -> str:
        """The word for the first contender of a pair with this verdict."""
        return {PairVerdict.FASTER: self.better, PairVerdict.SLOWER: self.worse}.get(verdict, str(verdict))


KNOWN = {
    metric.name: metric
    for metric in (
        Metric(
            name="throughput",
            compared="throughput",
            decides="throughput",
            more_is_better=True,
            lack="",
            sentence="{best} served {ratio} times the requests of {other}",
            head="requests/s",
            better="faster",
            worse="slower",
            best="fastest",
        ),
        Metric(
            name="cpu",
            compared="CPU per request",
            decides="CPU time per request",
            more_is_better=False,
            lack=" with readable CPU time",
            sentence="{other} needed {ratio} times the CPU per request of {best}",
            head="CPU µs/request",
            better="less CPU",
            worse="more CPU",
            best="least CPU",
            needs="needs",
        ),
        Metric(
            name="memory",
            compared="peak memory",
            decides="peak memory",
            more_is_better=False,
            lack=" with readable memory",
            sentence="{other} needed {ratio} times the memory of {best}",
            head="peak memory",
            better="less memory",
            worse="more memory",
            best="least memory",
            needs="needs",
            may_decide=False,
        ),
        *(
            Metric(
                name=f"latency-{quantile}",
                compared=f"{quantile} latency",
                decides=f"{quantile} latency",
                more_is_better=False,
                lack=" in an open loop",
                sentence=f"{{other}} had {{ratio}} times the {quantile} latency of {{best}}",
                head=f"{quantile} µs",
                better=f"lower {quantile}",
                worse=f"higher {quantile}",
                best=f"lowest {quantile}",
                needs="has",
                quantile=quantile,
            )
            for quantile in ("p50", "p90", "p99", "p99.9")
        ),
    )
}

#: Responses that a block must have at least for each quantile (ten above it; a hundred for the median).
ANSWERS = {"p50": 100, "p90": 300, "p99": 1000, "p99.9": 10_000}

#: An open loop's rate was reached if this share of the requests left in time.
SUSTAINED = 0.99

#: Typical latency of responses that wait for a delayed acknowledgement: Linux's 40 ms and a little.
DELAYED_NS = (39_000_000, 46_000_000)

#: What it means that most responses of a server take as long as Linux delays an acknowledgement.
GATHERED = (
    "responses gather at 40–44 ms: a delayed acknowledgement; the server writes head and body apart, and its kernel "
    "holds the second part back until the first one is acknowledged; set TCP_NODELAY in the server, or let it write "
    "both at once"
)

#: How late 1 % of requests may be sent without a warning: the cost of a wake-up, apart from the pace's ticks.
LATE_NS = 100_000
TICKS_NS = {"precise": 0, "balanced": 210_000, "thrifty": 1_000_000}

#: Their names, in the order in which they are shown.
METRICS = tuple(KNOWN)

_TYPICAL = "typical-"


@dataclass(frozen=True, slots=True)
class MetricChoice:
    """What a race is judged by; its text is the name, with ``typical-`` before it if it is typical.

    Args:
        name: of a metric, or ``AUTO``.
        typical: by the median over passes, what a server does between pauses (``--typical``), instead of by totals.
    """

    name: str
    typical: bool = False

    @classmethod
    def of(cls, text: str) -> MetricChoice:
        """Reads the text.

        Raises:
            BadUsage: unknown metric, or a metric that may not decide in this way.
        """
        name = text.removeprefix(_TYPICAL)
        typical = name != text
        if name != AUTO and (name not in KNOWN or (typical and not KNOWN[name].may_decide)):
            raise BadUsage(f"a race can't be judged by metric {text!r}; use {' or '.join((AUTO, *METRICS))}")
        return cls(name, typical)

    def __str__(self) -> str:
        return f"{_TYPICAL if self.typical else ''}{self.name}"

    @property
    def quantile(self) -> str:
        """Of an open loop's latencies; "" if it is another metric."""
        return KNOWN[self.name].quantile if self.name in KNOWN else ""
