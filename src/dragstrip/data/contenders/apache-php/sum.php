<?php
$a = filter_input(INPUT_GET, 'a', FILTER_VALIDATE_INT);
$b = filter_input(INPUT_GET, 'b', FILTER_VALIDATE_INT);
$c = filter_var(file_get_contents('php://input'), FILTER_VALIDATE_INT);
if (!is_int($a) || !is_int($b) || !is_int($c)) {
    http_response_code(400);
    exit;
}
$body = (string) ($a + $b + $c);
header('Content-Type: text/plain');
header('Content-Length: ' . strlen($body));
echo $body;
