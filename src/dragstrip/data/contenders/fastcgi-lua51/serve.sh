#!/bin/sh
cd {{ scratch }} || exit 1
. ./hold.sh
# spawn-fcgi -F would leave its children to nobody; and it looks for no program on PATH.
{% for number in range(processes) %}
hold spawn-fcgi -n -b 4096 -s {{ scratch }}/app{{ number }}.sock -- "$(command -v {{ interpreter }})" \
    -e 'require("wsapi.fastcgi").run(dofile("{{ scratch }}/app.lua"))'
{% endfor %}
{% for number in range(processes) %}
await_sockets {{ scratch }}/app{{ number }}.sock
{% endfor %}
hold nginx -p {{ scratch }} -c {{ scratch }}/nginx.conf -e stderr
wait
