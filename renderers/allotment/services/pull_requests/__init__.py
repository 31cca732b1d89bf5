"""Plans pull requests, checks the permissions for their changes, and comments on their plans and rollouts."""
