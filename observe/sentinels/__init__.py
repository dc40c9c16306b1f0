"""Sentinels look out for what is wrong with groups and say so once; see docs/sentinels.md."""
