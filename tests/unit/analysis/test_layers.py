"""CPU time by layer and by function, from sampled stacks with a known answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import samples

from dragstrip.analysis.causes import Causes, causes
from dragstrip.analysis.layers import by_function, by_layer
from dragstrip.record import Profile
from dragstrip.report.race.layer_file import layers

#: Frames of servers in C, Go, JavaScript and Python, innermost function first, and the layer of each.
KNOWN = {
    "tcp_sendmsg_locked;tcp_sendmsg;do_writev": ("kernel", "", "kernel: send"),
    "simple_copy_to_iter;tcp_recvmsg;__x64_sys_recvfrom": ("kernel", "", "kernel: receive"),
    "ep_poll;do_epoll_wait;__x64_sys_epoll_wait": ("kernel", "", "kernel: wait for events"),
    "finish_task_switch;schedule;futex_do_wait;do_futex": ("kernel", "", "kernel: locks between threads"),
    "inet_csk_accept;do_accept;__x64_sys_accept4": ("kernel", "", "kernel: connections"),
    "clear_page;do_anonymous_page": ("kernel", "", "kernel: other"),
    "JS:*answer server.js:17": ("compiled", "", "compiled by the runtime"),
    "v8::internal::Heap::CollectGarbage(int)": ("user", "/usr/bin/node", "garbage collection"),
    "runtime.gcDrain": ("user", "/srv/app", "garbage collection"),
    "memcpy": ("user", "/lib/x86_64-linux-gnu/libc.so.6", "C library"),
    "": ("user", "/usr/lib/libcrypto.so.3", "TLS"),
    "ngx_http_write_filter": ("user", "/usr/sbin/nginx", "own code and its libraries"),
}


def profile(index: int, cpu_us: float, counts: Mapping[str, int], contender: str = "quick") -> Profile:
    """An extra launch with these samples by the innermost function."""
    stacks = samples.stacks(counts)
    stacks["counts"] |= {"cpu_ns": cpu_us * 1e3 * 100_000}
    return samples.profile(contender, index, **stacks)


@pytest.mark.parametrize("names", KNOWN)
def test_each_frame_belongs_to_its_layer(names: str) -> None:
    """A stack of these functions is in the layer that the shipped file gives it."""
    place, module, layer = KNOWN[names]
    frames = samples.stacks({"x": 200}, **{"x": (place, module, "x")})["frames"]
    stack = tuple(replace(frames[1], name=name) for name in names.split(";"))
    launch = replace(profile(0, 5.0, {"x": 200}), frames=stack)
    launch = replace(launch, stacks=(replace(launch.stacks[0], frames=tuple(range(len(stack)))),))
    parts = by_layer([launch], layers())
    assert parts is not None
    assert parts.names == {layer}


def test_parts_add_up_to_the_cpu_time() -> None:
    """The sum over all functions is the CPU time per response; a function has its share of samples."""
    parts = by_function([profile(0, 8.0, {"parse": 250, "render": 750})])
    assert parts is not None
    assert parts.cpu_us("parse [app]").mean == pytest.approx(2.0)
    assert sum(parts.cpu_us(name).mean for name in parts.names) == pytest.approx(8.0)


def test_too_few_samples_or_no_cpu_time_are_no_parts() -> None:
    """Ninety samples, and a launch whose CPU time is unknown."""
    assert by_function([profile(0, 8.0, {"parse": 90})]) is None
    unknown = samples.profile("quick", **samples.stacks({"parse": 900}))
    assert by_function([unknown]) is None
    assert by_function([]) is None


def compared(*, revisions: bool) -> Causes:
    """The causes of a planted function of 10 %."""
    made = causes(samples.planted(revisions=revisions), layers())
    assert made is not None
    return made


def test_the_planted_function_of_a_revision_is_the_only_one_that_differs() -> None:
    """Its CPU time is right to a tenth and explains the difference; between other servers none are compared."""
    explained = compared(revisions=True).explained(1)
    assert explained is not None
    ((name, planted),) = explained.found
    assert name == "planted [app]"
    assert planted.interval.estimate == pytest.approx(0.66, rel=0.1)
    assert explained.unexplained_us == pytest.approx(0.66 - planted.interval.estimate)
    assert explained.unexplained_share == pytest.approx(0.0, abs=0.02)
    apart = compared(revisions=False)
    assert not apart.functions
    assert apart.explained(1) is None
    assert [row.name for row in apart.layers] == ["own code and its libraries"]
