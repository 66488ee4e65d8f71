"""Typed questions to a model."""
