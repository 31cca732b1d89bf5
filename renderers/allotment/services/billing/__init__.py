"""Billing: reads the recorded usage of clusters, and computes the bills of months."""
