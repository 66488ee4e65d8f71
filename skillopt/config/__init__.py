"""Settings, registries, secrets."""
