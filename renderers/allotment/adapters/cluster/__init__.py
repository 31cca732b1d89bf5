"""A cluster's API server, through the `kubernetes` package's transport: asked, listed and watched, never written to.

The one exception is the Lease by which replicas agree who reports.
"""
