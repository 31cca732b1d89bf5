"""The only modules that touch the world, one client library each, no logic of ours."""
