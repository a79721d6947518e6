<?php
// One connection per process, kept from request to request; the statement is prepared by the server, for each request.
$database = new PDO('pgsql:host={{ database_host }};port={{ database_port }};dbname={{ database_name }}', '{{ database_user }}', null, [
    PDO::ATTR_PERSISTENT => true,
    PDO::ATTR_EMULATE_PREPARES => false,
    PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
]);
$row = $database->prepare('SELECT id, n FROM rows WHERE id = ?');

function row(PDOStatement $row, int $id): array
{
    $row->execute([$id]);
    return $row->fetch();
}

function answer(array $found): void
{
    $body = json_encode($found);
    header('Content-Type: application/json');
    header('Content-Length: ' . strlen($body));
    echo $body;
}
