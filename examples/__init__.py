"""One runnable file for each agent framework; without a key, a scripted model answers."""
