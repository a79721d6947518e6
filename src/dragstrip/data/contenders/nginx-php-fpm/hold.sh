# Sourced by a launcher of two programs: `hold PROGRAM…` runs one; when any of them ends, or at SIGTERM, all end.
# A backend that died alone would leave nginx to answer 502s, faster than any right answer.
PATH=$PATH:/usr/local/sbin:/usr/sbin
held=

hold() {
    _hold "$@" &
    held="$held $!"
}

_hold() {
    own=
    trap 'kill $own 2>/dev/null' TERM
    trap '' USR1
    "$@" &
    own=$!
    wait $own
    while kill -0 $own 2>/dev/null; do wait $own; done
    kill -USR1 $$ 2>/dev/null
}

# So that nginx's first requests find the backend there. A socket's file exists before the backend listens (bind, then
# listen); 00010000 is the kernel's flag for a socket that listens.
await_sockets() {
    for socket in "$@"; do
        until grep -q " 00010000 .* $socket\$" /proc/net/unix; do sleep 0.01; done
    done
}

_end_all() {
    trap '' TERM INT USR1
    kill $held 2>/dev/null
    wait
    exit "$1"
}

trap '_end_all 0' TERM INT
trap '_end_all 1' USR1
