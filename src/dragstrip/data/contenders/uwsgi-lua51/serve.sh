#!/bin/sh
cd {{ scratch }} || exit 1
. ./hold.sh
# uWSGI looks in a plugin for the name of its file; Debian renamed the file of the LuaJIT one, not what is in it.
ln -s /usr/lib/uwsgi/plugins/{{ plugin }}_plugin.so {{ scratch }}/lua_plugin.so
hold uwsgi-core --ini {{ scratch }}/uwsgi.ini
{% if front == "nginx" %}
await_sockets {{ scratch }}/app.sock
hold nginx -p {{ scratch }} -c {{ scratch }}/nginx.conf -e stderr
{% endif %}
wait
