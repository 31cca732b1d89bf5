"""Plans pull requests, checks the permissions for their changes, comments on them, and follows their rollout after the
merge."""
