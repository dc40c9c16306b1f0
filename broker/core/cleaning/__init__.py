"""Retention and compaction, as decisions: which segments go, which logs are compacted, which records stay."""
