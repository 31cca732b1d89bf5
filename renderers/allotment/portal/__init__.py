"""The portal: pages about the catalog and the tenants, for a browser. Pure: facts in, HTML out."""
