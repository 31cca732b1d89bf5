"""The way of a repository, from its files to the rendered branches: here the pure stations and the adapters meet."""
