"""Render a cluster: the foundations of its tenants, its nodes and placeholders, and the setup of Argo CD."""
