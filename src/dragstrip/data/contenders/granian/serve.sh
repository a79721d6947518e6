#!/bin/sh
# Files by Granian itself, where there are some: it refuses a folder that isn't there.
{% if "static/" in data_files | join(" ") %}
set -- --static-path-mount {{ data }}/static --static-path-expires 0
{% endif %}
{% if tls == "on" %}
set -- --ssl-certificate {{ certificate }} --ssl-keyfile {{ certificate_key }} "$@"
{% endif %}
exec {{ python }} -I -m granian --interface asginl --host {{ address }} --port {{ port }} --workers {{ workers }} \
    --http {{ 2 if http == "2" else 1 }} --loop uvloop --backlog 4096 --no-ws --no-access-log --log-level warning \
    --working-dir {{ scratch }} --workers-kill-timeout 3 "$@" app:application
