"""Tests that share a whole cloud whose only node runs containers: one worker takes them all."""
