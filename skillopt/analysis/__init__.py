"""What a result says: reports, lineage, the worth of rules, noise, checks of data and skills."""
