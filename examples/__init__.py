"""One runnable file for each agent framework; without a key a scripted model takes the place of the real one."""
