"""Importing what other programs remembered: a reader for each source, and one writer."""
