"""The composition root: from a configuration to live parts. Mode names go no further than here."""
