"""Reporting: commits the observed state of a cluster to its status branch, and reads it back."""
