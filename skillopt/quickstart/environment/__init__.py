"""The environment that `skillopt new env` starts from."""
