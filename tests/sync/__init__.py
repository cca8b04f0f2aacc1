"""Tests of sync: the merge, histories of several machines, and sync over real git."""
