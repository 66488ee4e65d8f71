"""For authors of extensions: contract checks, test doubles and a simulator."""
