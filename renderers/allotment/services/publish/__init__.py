"""Publishing: computes the next rendered branches from the declarations and the published manifests."""
