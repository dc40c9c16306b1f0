"""The files of a data directory: their names and formats, and how to read them beside a broker or without one.

The broker writes them. Its recovery, the commands that look into a data directory, and the pipeline read them.
"""
