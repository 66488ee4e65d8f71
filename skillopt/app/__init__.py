"""Creates all objects of a run from the configuration."""
