"""Quality and speed, each a command that prints a table and writes JSON."""
