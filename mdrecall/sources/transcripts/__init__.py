"""Transcripts of conversations: one small reader for each format, and one table of them."""
