<?php
const ROWS = 10000;
require __DIR__ . '/database.php';
$id = (int) $_GET['id'];
$found = [];
for ($i = 0; $i < (int) $_GET['n']; $i++) {
    $found[] = row($row, ($id - 1 + $i) % ROWS + 1);
}
answer($found);
