"""Configuration: OpenClaw's file read as it is, every setting strict, with where each value came from."""
