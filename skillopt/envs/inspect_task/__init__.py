"""Any task of Inspect AI as an environment."""
