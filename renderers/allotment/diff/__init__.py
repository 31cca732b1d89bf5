"""Compute the differences between two revisions for the report of a plan."""
