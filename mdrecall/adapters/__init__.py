"""The same tools inside agent frameworks: one thin module for each, which imports its framework when it is called."""
