"""One module per API: its request and its response."""
