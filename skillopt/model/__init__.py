"""Model providers: wire, credentials and quirks kept apart."""
