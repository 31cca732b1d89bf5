"""The branches at remotes: which commits count as merged, what is published and reported, and which commits are trusted."""
