"""Conversations: who sees which, what was said in them, and what is saved of them."""
