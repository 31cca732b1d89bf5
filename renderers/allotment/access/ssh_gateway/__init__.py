"""Connects people with SSH keys to the containers of instances."""
