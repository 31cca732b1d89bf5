"""Changes of published manifests: the brake, the steps of a deletion, and the transitions of volumes."""
