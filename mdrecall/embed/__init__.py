"""Embedders: text to vectors."""
