"""Classic groups: JoinGroup, SyncGroup, and generations that the members agree on."""
