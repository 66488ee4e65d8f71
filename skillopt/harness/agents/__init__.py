"""Agent programs as harnesses: one file for each."""
