"""Mathematical problems with a diagram, in six versions that put more or less of it into text."""
