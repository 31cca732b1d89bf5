"""The portal: pages about the catalog, the tenants and the platform, built from a clone and served to a browser."""
