"""The rules of the life of a memory: scores, shapes of text, contradictions. No I/O."""
