"""Multiple-choice questions about recent theorems."""
