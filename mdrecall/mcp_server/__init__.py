"""Memories as an MCP server: tools, resources and a prompt, over standard input and output or over HTTP."""
