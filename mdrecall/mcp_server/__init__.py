"""The MCP server: tools, resources and a prompt for agents, on standard input and output or over HTTP."""
