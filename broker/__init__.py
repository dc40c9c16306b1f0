"""The server: connections, dispatch, handlers, the pure core, storage."""
