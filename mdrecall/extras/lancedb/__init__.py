"""``memory-lancedb``: short memories in a LanceDB table, stored, recalled and forgotten by tools and hooks."""
