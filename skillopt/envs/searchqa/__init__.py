"""Trivia clues with search snippets."""
