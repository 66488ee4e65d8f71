"""Ways to run an agent on an episode."""
