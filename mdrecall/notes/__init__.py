"""Where documents come from: the memory files of a workspace."""
