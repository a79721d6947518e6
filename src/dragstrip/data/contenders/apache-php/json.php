<?php
$n = filter_input(INPUT_GET, 'n', FILTER_VALIDATE_INT);
$m = filter_input(INPUT_GET, 'm', FILTER_VALIDATE_INT);
// PHP keeps nothing from one request to the next: the items are read each time.
$items = json_decode(file_get_contents('{{ data }}/items.json'), true);
if (!is_int($n) || !is_int($m) || $n > count($items)) {
    http_response_code(400);
    exit;
}
$chosen = array_slice($items, 0, $n);
foreach ($chosen as &$item) {
    $item['total'] = $item['price'] * $item['quantity'] * $m;
}
$body = json_encode(['items' => $chosen, 'count' => $n]);
header('Content-Type: application/json');
header('Content-Length: ' . strlen($body));
echo $body;
