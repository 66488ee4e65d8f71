"""Puzzles of early vision: an image, a question, a short answer or a choice."""
