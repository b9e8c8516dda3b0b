"""Membership in consumer groups: the protocols, rebalances and subscriptions."""
