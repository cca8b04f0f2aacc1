"""Memory inside coding agents, called hosts here: what happens when a host calls mdrecall at one of its events."""
