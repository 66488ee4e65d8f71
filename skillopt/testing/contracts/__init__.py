"""Checks of what the engine expects from extensions, to be used in their tests."""
