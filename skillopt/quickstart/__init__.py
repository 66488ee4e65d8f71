"""A small job to start with: reading fields out of customers' notes, in the house's own style."""
