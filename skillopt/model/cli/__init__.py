"""Command-line programs that people are logged in to, used as plain text models."""
