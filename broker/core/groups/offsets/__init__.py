"""Committed offsets: OffsetCommit, TxnOffsetCommit and OffsetFetch, apart from any kind of group."""
