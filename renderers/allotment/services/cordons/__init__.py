"""Applies the declared cordons of a cluster to its nodes."""
