"""Text to chunks, headings, words and stems."""
