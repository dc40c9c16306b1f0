"""The pipeline's demo: groups in trouble, and what the lake says of them afterwards; see ``__main__``."""
