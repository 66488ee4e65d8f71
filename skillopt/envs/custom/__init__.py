"""Any table with an input and an answer, judged by a scorer named in the settings."""
