"""Real coding agents from npm, headless, against a model server of our own on the loopback interface."""
