"""Differences between two revisions: everything that a plan reports."""
