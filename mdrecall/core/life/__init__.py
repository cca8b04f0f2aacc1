"""The life of a memory, as pure functions: what is promoted, replaced, imported."""
