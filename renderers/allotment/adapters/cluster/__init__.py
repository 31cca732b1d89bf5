"""Reads and watches a cluster's API server through the transport of the `kubernetes` package.

The only object that this package writes is a Lease, with which the replicas of the reporter elect a leader.
"""
