<?php
require __DIR__ . '/database.php';
answer(row($row, (int) $_GET['id']));
