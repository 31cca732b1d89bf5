"""Reads and watches a cluster's API server through the transport of the `kubernetes` package.

The only write is the Lease by which replicas elect the leader that reports.
"""
