"""Reads numbers, counts and durations as people type them, for every option; writes shares and failures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

_SCALES = {"": 0, "k": 3, "m": 6, "g": 9}
_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}

_NUMBER = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(?:[eE]\+?(\d{1,2}))?([kKmMgG]?)", re.ASCII)
_PART = r"(\d{1,18}(?:\.\d{1,18})?)"
_PLAIN = re.compile(_PART, re.ASCII)
#: Each unit once, the longest first.
_DURATION = re.compile("".join(rf"(?:{_PART}({unit}))?" for unit in ("h", "m", "s", "ms", "us|µs")), re.ASCII)


def number(text: str) -> Decimal | None:
    """``20000``, ``20k``, ``1.5M`` or ``1e3``; None if it is not such a number. Never negative."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    return Decimal(match[1]).scaleb(int(match[2] or 0) + _SCALES[match[3].lower()])


def whole(text: str) -> int | None:
    """The number if it is whole: ``10k``, ``1e3`` and ``1.5k``, but not ``1.5``; otherwise None."""
    value = number(text)
    return None if value is None or value != value.to_integral_value() else int(value)


def seconds(text: str) -> float | None:
    """``90`` (seconds), ``10s``, ``1m30s``, ``1h``, ``5ms`` or ``500us``; None if it is not a duration."""
    if _PLAIN.fullmatch(text):
        return float(text)
    match = _DURATION.fullmatch(text) if text else None
    if match is None:
        return None
    parts = list(match.groups())
    return sum(float(value) * _UNITS_S[unit] for value, unit in zip(parts[::2], parts[1::2], strict=True) if unit)


def two_digits(value: float) -> str:
    """Two significant digits, no exponent; all digits before the point if there are more."""
    return f"{value:,.0f}" if abs(value) >= 99.5 else f"{Decimal(f'{value:.2g}'):f}"


def as_percent(value: float) -> str:
    """A share with two significant digits: 0.0123 as 1.2 %, 2.7 as 270 %."""
    return f"{two_digits(100 * value)} %"


def percent(share: float) -> str:
    """0.01 as 1 %."""
    return f"{100 * share:.3g} %" if abs(share) < 9.995 else f"{100 * share:,.0f} %"


def errors(by_kind: Mapping[str, int]) -> str:
    """Failures by kind, most frequent first; "none" without any."""
    met = sorted(((n, kind) for kind, n in by_kind.items() if n), reverse=True)
    return ", ".join(f"{n:,} {kind.replace('_', ' ')}" for n, kind in met) or "none"
