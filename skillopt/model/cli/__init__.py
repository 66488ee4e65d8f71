"""Command line programs as text models."""
