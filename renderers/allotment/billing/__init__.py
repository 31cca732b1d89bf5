"""Computes usage and costs from recorded intervals."""
