#!/bin/sh
cd {{ scratch }} || exit 1
. ./hold.sh
hold {{ build }}/bin/uwsgi --ini {{ scratch }}/uwsgi.ini
{% if front == "nginx" %}
await_sockets {{ scratch }}/app.sock
hold nginx -p {{ scratch }} -c {{ scratch }}/nginx.conf -e stderr
{% endif %}
wait
