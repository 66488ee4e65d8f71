"""What the engine expects of the parts that others write, as checks to run in their tests."""
