<?php
$body = "hello world\n";
header('Content-Type: text/plain');
header('Content-Length: ' . strlen($body));
echo $body;
