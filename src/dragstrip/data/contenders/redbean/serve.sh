#!/bin/sh
exec /bin/sh "$(command -v redbean)" -l {{ address }} -p {{ port }} -s -F {{ scratch }}/init.lua
