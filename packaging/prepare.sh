#!/bin/sh
# Makes the Python environment that `make` works in, after it has looked for what a build needs.
#
#     packaging/prepare.sh PYTHON FOLDER
#
# As root with apt-get, what is missing is installed, after the command was shown. Otherwise one line lists all that is
# missing, with the command that installs it. An environment that a failed run left half made is made again. Exits with
# 2 if something is missing. FOLDER/prepared is touched only if the environment was made, so that make builds again then.
set -eu

python=$1 folder=$2
rust=1.88   # as rust-version in Cargo.toml

# «x.y» at least, by numbers: newer_than 1.100 1.88
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -t . -k 1,1n -k 2,2n | head -n 1)" = "$2" ]
}

# What is missing, in words and as Debian's packages.
words='' packages=''
lacks() {
    words="$words${words:+, }$1"
    packages="$packages${2:+ $2}"
}

look() {
    words='' packages=''
    if ! command -v "$python" > /dev/null 2>&1; then
        lacks "$python (Python 3.11 or later)" python3
        venv=python3-venv
    else
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        at_least "$version" 3.11 || lacks "Python 3.11 or later ($python is $version; name another: make PYTHON=python3.13 …)" ''
        # Debian has a package for its usual Python, and one for each version beside that.
        venv=python3-venv
        case $("$python" -c 'import os, sys; print(os.path.basename(os.path.realpath(sys.executable)))') in
            "$(basename "$(readlink -f /usr/bin/python3 2> /dev/null || echo python3)")") ;;
            python3.*) venv=python$version-venv ;;
        esac
    fi
    # Debian leaves these two modules out of python3; without them the environment would be half made.
    { [ -n "$words" ] || "$python" -c 'import ensurepip, venv' 2> /dev/null; } || lacks "Python's venv" "$venv"
    # Rust links by the C compiler, and LuaJIT is compiled by it.
    printf '#include <stdio.h>\nint main(void) { return 0; }\n' | cc -x c - -o /dev/null 2> /dev/null \
        || lacks "a C compiler with the C library's headers" 'gcc libc6-dev'
    command -v git > /dev/null || lacks git git
    if ! command -v cargo > /dev/null; then
        lacks "Rust's cargo $rust or later (see https://rustup.rs)" ''
    else
        cargo=$(cargo --version 2> /dev/null | sed -n 's/^cargo \([0-9]*\.[0-9]*\).*/\1/p')
        at_least "${cargo:-0.0}" "$rust" \
            || lacks "Rust's cargo $rust or later (this one is ${cargo:-unusable}; rustup update stable, or see https://rustup.rs)" ''
    fi
}

look
if [ -n "$packages" ] && command -v apt-get > /dev/null; then
    install="apt-get install -y --no-install-recommends$packages"
    lists=$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' 2> /dev/null | head -n 1)
    if [ "$(id -u)" = 0 ]; then
        echo "Missing: $words. Debian has packages for it:" >&2
        [ -n "$lists" ] || { echo '$ apt-get update' >&2; apt-get update -qq; }
        echo "\$ $install" >&2
        DEBIAN_FRONTEND=noninteractive $install > /dev/null
        look
    fi
fi
if [ -n "$words" ]; then
    remedy=''
    if [ -n "$packages" ] && command -v apt-get > /dev/null; then
        remedy=" Paste: ${lists:+sudo $install}"
        [ -n "$lists" ] || remedy=" Paste: sudo apt-get update && sudo $install"
    fi
    echo "Dragstrip's build needs what is missing here: $words.$remedy" >&2
    exit 2
fi

if ! { [ -e "$folder/prepared" ] && "$folder/bin/python" -c 'import pip' 2> /dev/null; }; then
    rm -rf "$folder"
    "$python" -m venv "$folder"
    touch "$folder/prepared"
fi
