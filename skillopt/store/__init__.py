"""The run directory: the event log, the cache, and the files that users read."""
