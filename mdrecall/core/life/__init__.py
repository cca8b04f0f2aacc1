"""The life of a memory, without I/O: what is promoted, superseded and forgotten."""
