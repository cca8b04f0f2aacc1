"""Providers with an embeddings API: one table of them, and what asks their servers."""
