"""Render the objects of a cluster that belong to no tenant, such as its node pools, and the setup of Argo CD."""
