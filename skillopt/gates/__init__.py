"""When a candidate is accepted: metrics, gates, statistics, successive halving."""
