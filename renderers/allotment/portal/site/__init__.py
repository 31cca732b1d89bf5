"""Builds the portal from a clone, and serves it."""
