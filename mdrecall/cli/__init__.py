"""The command line: one file per command, each of which parses, makes one call, and prints."""
