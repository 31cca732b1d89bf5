"""Accesses Argo CD with the login of its command line."""
