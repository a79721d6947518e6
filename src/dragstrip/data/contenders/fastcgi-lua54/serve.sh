#!/bin/sh
cd {{ scratch }} || exit 1
. ./hold.sh
{% for number in range(processes) %}
hold spawn-fcgi -n -b 4096 -s {{ scratch }}/app{{ number }}.sock -- {{ build }}/host {{ scratch }}/app.lua
await_sockets {{ scratch }}/app{{ number }}.sock
{% endfor %}
hold nginx -p {{ scratch }} -c {{ scratch }}/nginx.conf -e stderr
wait
