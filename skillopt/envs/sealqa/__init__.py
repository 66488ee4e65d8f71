"""Questions for which search results conflict or do not help."""
