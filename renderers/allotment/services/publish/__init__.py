"""Publishing: renders tenants and clusters, and computes the next rendered branches from the published manifests."""
