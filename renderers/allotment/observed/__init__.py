"""What the clusters say: live objects → a status, with reasons in the owner's words."""
