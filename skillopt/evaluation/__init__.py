"""Is it better, by how much, how sure."""
