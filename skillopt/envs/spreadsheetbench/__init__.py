"""Workbooks that a script of the agent changes as asked."""
