"""Plans pull requests, checks who may change what, comments on them, and follows their rollout after the merge."""
