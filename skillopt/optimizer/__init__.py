"""From proposed edits to a candidate skill, and what is kept across epochs."""
