"""From terms and vectors to scores, order, passages and snippets."""
