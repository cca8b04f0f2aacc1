"""Who is the memory of an agent: the plugin in the slot, ours or somebody else's."""
