"""The memory tools inside agent frameworks: one thin module for each, which imports its framework when called."""
