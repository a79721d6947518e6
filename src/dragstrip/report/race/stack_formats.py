"""Sampled stacks in the shapes that other programs read: collapsed stacks, speedscope and pprof.

Sources: flamegraph.pl's input, speedscope's file format, and profile.proto of google/pprof. The messages of the last
are written here, because its library would bring a compiler of messages for forty lines.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence

from dragstrip.analysis.function_names import function
from dragstrip.analysis.layers import sampled_us
from dragstrip.record import CodePlace, Profile, Race, StackFrame
from dragstrip.report.figures import visible
from dragstrip.store.json_values import Json, JsonObject

#: The address by which speedscope knows its format.
_SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"

#: A frame in these formats: its name, its file, and both in a word.
_Frame = tuple[str, str, str]


def by_contender(race: Race, only: str | None = None) -> dict[str, list[Profile]]:
    """Launches with stacks by contender; only the one of this name, unless it is None."""
    found: dict[str, list[Profile]] = {}
    for profile in race.profiles:
        if profile.stacks and only in (None, profile.contender):
            found.setdefault(profile.contender, []).append(profile)
    return found


def collapsed(launches: Mapping[str, Sequence[Profile]]) -> str:
    """A line per stack, its outermost function first, with its samples; of several contenders, their names first."""
    lines = []
    for contender, mine in launches.items():
        head = [_word(contender)] if len(launches) > 1 else []
        for frames, samples in _summed(mine, lambda profile: 1.0).items():
            named = [*head, *(_word(word) for _, _, word in reversed(frames))]
            lines.append(f"{';'.join(named)} {samples:.0f}")
    return "\n".join(sorted(lines)) + "\n"


def speedscope(race: Race, launches: Mapping[str, Sequence[Profile]]) -> str:
    """A profile per contender, in µs of CPU time per response: the mean over launches."""
    places: dict[_Frame, int] = {}
    profiles: list[Json] = []
    for contender, mine in launches.items():
        weights = {frames: us / len(mine) for frames, us in _summed(mine, _us_per_sample).items()}
        stacks: list[Json] = [
            [places.setdefault(frame, len(places)) for frame in reversed(frames)] for frames in weights
        ]
        profiles.append(
            {
                "type": "sampled",
                "name": visible(contender),
                "unit": "microseconds",
                "startValue": 0,
                "endValue": sum(weights.values()),
                "samples": stacks,
                "weights": list(weights.values()),
            }
        )
    frames: list[Json] = [
        {"name": visible(name), **({"file": visible(file)} if file else {})} for name, file, _ in places
    ]
    whole: JsonObject = {
        "$schema": _SPEEDSCOPE,
        "name": f"race {race.id}: CPU µs per response",
        "exporter": "dragstrip",
        "shared": {"frames": frames},
        "profiles": profiles,
    }
    return json.dumps(whole, ensure_ascii=False, allow_nan=False) + "\n"


def pprof(race: Race, launches: Mapping[str, Sequence[Profile]]) -> bytes:
    """All contenders' samples and CPU time, each with its contender as a label, as a gzipped profile."""
    texts = {"": 0}
    places: dict[_Frame, int] = {}

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    samples = b""
    for contender, mine in launches.items():
        label = _message(3, _number(1, text("contender")) + _number(2, text(contender)))
        counts = _summed(mine, lambda profile: 1.0)
        cpu_ns = _summed(mine, _ns_per_sample)
        for frames, count in counts.items():
            at = b"".join(_varint(places.setdefault(frame, len(places)) + 1) for frame in frames)
            values = _varint(round(count)) + _varint(round(cpu_ns[frames]))
            samples += _message(2, _message(1, at) + _message(2, values) + label)
    functions = locations = b""
    for number, (name, file, _) in enumerate(places, 1):
        function = _number(1, number) + _number(2, text(name)) + _number(3, text(name)) + _number(4, text(file))
        functions += _message(5, function)
        locations += _message(4, _number(1, number) + _message(4, _number(1, number)))
    units = {"samples": "count", "cpu": "nanoseconds"}
    kinds = [_number(1, text(kind)) + _number(2, text(unit)) for kind, unit in units.items()]
    head = b"".join(_message(1, kind) for kind in kinds)
    duration_ns = sum(profile.duration_ns for mine in launches.values() for profile in mine)
    tail = _number(10, duration_ns) + _message(11, kinds[1]) + _number(12, 1_001_001) + _number(14, text("cpu"))
    tail += _number(13, text(f"dragstrip race {race.id}"))
    strings = b"".join(_message(6, value.encode()) for value in texts)
    return gzip.compress(head + samples + locations + functions + strings + tail, mtime=0)


def _message(field: int, content: bytes) -> bytes:
    """A field with a length: a message, a text or packed numbers."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _us_per_sample(profile: Profile) -> float:
    """CPU µs per response that a sample stands for."""
    return (sampled_us(profile) or 0.0) / _samples(profile)


def _ns_per_sample(profile: Profile) -> float:
    return 1e3 * _us_per_sample(profile) * profile.answered


def _samples(profile: Profile) -> int:
    return sum(stack.samples for stack in profile.stacks)


def _summed(launches: Sequence[Profile], weight: Callable[[Profile], float]) -> dict[tuple[_Frame, ...], float]:
    """Stacks of all launches, the innermost frame first, with their samples times a launch's weight."""
    summed: dict[tuple[_Frame, ...], float] = {}
    for profile in launches:
        frames = [_frame(frame) for frame in profile.frames]
        each = weight(profile)
        for stack in profile.stacks:
            key = tuple(frames[at] for at in stack.frames)
            summed[key] = summed.get(key, 0.0) + stack.samples * each
    return summed


def _frame(frame: StackFrame) -> _Frame:
    file = "[kernel]" if frame.place is CodePlace.KERNEL else frame.module
    return frame.name or "?", file, function(frame)


def _word(text: str) -> str:
    """A function in a line of collapsed stacks, where a semicolon ends it."""
    return visible(text).replace(";", ":").replace("\n", " ")
