"""The run directory: the record, finished work, and the files that users read."""
