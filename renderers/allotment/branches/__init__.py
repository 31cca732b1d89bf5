"""The rendered and status branches: their refs, their signatures, and which commits are trusted."""
