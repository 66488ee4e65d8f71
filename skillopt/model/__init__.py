"""Model backends, and the wrappers that add retries, limits and caching."""
