"""The machine: facts that make numbers comparable (or not), cores for server and generator, and how busy it is.

Linux only; a value that cannot be read is None, never a guess. ``cores`` divides the cores, ``inventory`` describes the
machine, ``activity`` reads how busy it is.
"""

from dragstrip.machine.activity import (
    WINDOW_S,
    busy_ns,
    cpu_by_process,
    frequencies_khz,
    load_average,
    steal_ns,
    thread_cpu_ns,
    throttled,
    wait_for_quiet,
    who_worked,
)
from dragstrip.machine.cores import (
    MAX_ENGINE_CORES,
    Lanes,
    lanes,
    parse_cores,
    show_cores,
    siblings,
    with_database,
)
from dragstrip.machine.inventory import facts
