<?php
if (!is_numeric($_GET['a'] ?? null) || !is_numeric($_GET['b'] ?? null)) {
    http_response_code(400);
    exit;
}
$a = (int) $_GET['a'];
$b = (int) $_GET['b'];
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$body = "<html><body><p>Hello {{ mark }}!</p><p>PATH=$path</p><p>RESULT: $a*$b=" . $a * $b . "</p></body></html>\n";
header('Content-Type: text/html');
header('Content-Length: ' . strlen($body));
echo $body;
