#!/bin/sh
cd {{ scratch }} || exit 1
. ./hold.sh
hold php-fpm8.2 -F -O -y {{ scratch }}/php-fpm.conf
await_sockets {{ scratch }}/app.sock
hold nginx -p {{ scratch }} -c {{ scratch }}/nginx.conf -e stderr
wait
