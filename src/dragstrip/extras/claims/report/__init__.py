"""Claims and what became of them: table, chart, page of docs."""
