"""Render a cluster's objects that belong to no tenant, such as node pools, and the objects that set up Argo CD."""
