"""Reporting: what a cluster was seen to have becomes the commits of its status branch, and what these say is read back."""
