"""Any table with an input and an answer column, scored by a scorer of the settings."""
