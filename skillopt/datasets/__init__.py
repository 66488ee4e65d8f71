"""Files to tasks."""
