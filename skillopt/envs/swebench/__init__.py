"""Issues of open source projects, to be resolved in their repositories."""
