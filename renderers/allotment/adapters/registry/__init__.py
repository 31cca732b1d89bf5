"""Asks registries of container images for digests, with the OCI distribution API."""
