"""Pure functions on text and numbers: no files, no clock, no environment."""
