<?php
usleep(1000 * (int) basename($_SERVER['REQUEST_URI']));
header('Content-Type: text/plain');
header('Content-Length: 2');
echo 'ok';
