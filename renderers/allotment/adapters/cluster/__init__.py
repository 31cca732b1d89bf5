"""Reads and watches a cluster's API server through the transport of the `kubernetes` package.

The only object that it writes is a Lease: with this Lease, the replicas of the reporter elect a leader.
"""
