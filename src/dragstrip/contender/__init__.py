"""Definitions of servers under test (``contender.toml``), and everything needed to start such a server.

``definition`` reads TOML strictly, ``fields`` has the keys, ``discovery`` finds what is installed, ``entries`` turns
words into entrants, ``preparation`` makes the command of a launch, ``template`` renders files within bounds.
"""

from dragstrip.contender.address import Address, Trust, is_address
from dragstrip.contender.definition import Key, Source, Strict, nearest, parsed, read, validated
from dragstrip.contender.discovery import Missing, Ready, cache_dir, environment
from dragstrip.contender.elsewhere import (
    AllowedHost,
    addresses_here,
    allowance,
    allowed_host,
    bracketed,
    first_listening,
    is_loopback,
    refuse_beyond,
)
from dragstrip.contender.entries import (
    Entry,
    LineUp,
    broken_definitions,
    entrants,
    entry,
    entry_of,
    find,
    image_entry,
    line_up,
    names,
    parse_entry,
    serve_entry,
    shipped,
    url_entry,
    usual_workload,
    variant,
    workload_word_of,
)
from dragstrip.contender.fields import BUILD_S, NAME, PER_CORE, SUITES, Alternative, Contender, Install, load
from dragstrip.contender.preparation import (
    LOOPBACK,
    Identity,
    OwnCount,
    Start,
    build,
    check,
    commands,
    pending_build,
    prepare,
    status,
)
