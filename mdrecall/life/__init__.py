"""The life of a memory: what becomes long-term, what is replaced, forgotten, imported and exported."""
