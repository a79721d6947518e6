"""What a parity sheet can show that tilts a race: a class for each kind, with its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dragstrip.parity import KeepAlive


@dataclass(frozen=True, slots=True)
class Groups:
    """By a fact's value: the contenders that have it."""

    groups: Mapping[str, tuple[str, ...]]


class FramingDiffers(Groups):
    """Answers' bodies are framed differently."""


class VersionsDiffer(Groups):
    """Answers are of different versions of HTTP."""


class TlsDiffers(Groups):
    """Encryption differs."""


@dataclass(frozen=True, slots=True)
class SizeDiffers:
    """The contenders with the longest and the shortest answers, and their bytes."""

    most: tuple[str, int]
    least: tuple[str, int]


@dataclass(frozen=True, slots=True)
class DoubledHeaders:
    """By contender: headers that are twice in an answer."""

    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Switched:
    """Contenders with a setting that is on, and those with it off."""

    on: tuple[str, ...]
    off: tuple[str, ...]


class LoggingDiffers(Switched):
    """Some write an access log."""


class CompressionDiffers(Switched):
    """Some would compress."""


@dataclass(frozen=True, slots=True)
class SomeOf:
    """Contenders that do it, while others don't."""

    names: tuple[str, ...]


class SomeAreRoot(SomeOf):
    """These run as root."""


class SomeIgnorePaths(SomeOf):
    """These answer every path alike."""


class SomeCloseOldHttp(SomeOf):
    """These close each connection of HTTP/1.0."""


@dataclass(frozen=True, slots=True)
class ParityNote:
    """What a definition itself notes."""

    name: str
    note: str


@dataclass(frozen=True, slots=True)
class SomeClose:
    """By contender: after how many requests it closes a busy connection."""

    limits: Mapping[str, KeepAlive]


@dataclass(frozen=True, slots=True)
class CoresDiffer:
    """By contender: how many cores it keeps busy."""

    used: Mapping[str, float]


ParityObservation = (
    FramingDiffers
    | VersionsDiffer
    | TlsDiffers
    | SizeDiffers
    | DoubledHeaders
    | LoggingDiffers
    | CompressionDiffers
    | SomeAreRoot
    | SomeIgnorePaths
    | SomeCloseOldHttp
    | ParityNote
    | SomeClose
    | CoresDiffer
)
