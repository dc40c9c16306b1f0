"""One file per API key, named as the modules of protocol/messages."""
