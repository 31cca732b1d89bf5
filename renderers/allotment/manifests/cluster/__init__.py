"""A cluster: what all of its tenants rest on, the nodes and what is held ready on them, and what Argo CD is set up
with."""
