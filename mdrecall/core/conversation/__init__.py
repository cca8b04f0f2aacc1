"""Session keys, scope, memory flushes and transcript records."""
