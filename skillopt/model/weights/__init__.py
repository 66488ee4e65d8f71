"""Model files: which ones we know, where they come from, where they are kept."""
