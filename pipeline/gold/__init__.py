"""Gold tables: what silver tables mean, as SQL, one file a table."""
