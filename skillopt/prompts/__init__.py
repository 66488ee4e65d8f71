"""Questions to a model with a typed answer."""
