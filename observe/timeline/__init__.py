"""The timeline of a group: a lane for each member, rebalances with their barriers, commits and lag."""
