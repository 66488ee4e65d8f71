"""Household tasks in a text game."""
