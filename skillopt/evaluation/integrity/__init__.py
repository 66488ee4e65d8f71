"""Whether data can be trusted to measure a skill, and a skill not to have the answers in it."""
