"""A race as terminal text, page, charts, tables and files."""
