"""Checks of data, scorer and trained skills."""
