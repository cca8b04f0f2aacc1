"""The web page: search, read, understand, change and forget what a memory holds, in a browser on this machine."""
