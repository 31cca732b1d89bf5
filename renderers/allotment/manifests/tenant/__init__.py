"""Render a tenant's declarations as objects of its namespace, and as the AppProject and Applications that sync them."""
