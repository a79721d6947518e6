#!/bin/sh
exec /bin/sh "$(command -v redbean)" -l 127.0.0.1 -p {{ port }} -s -F {{ scratch }}/init.lua
