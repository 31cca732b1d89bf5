"""Services: check a repository, publish its manifests, report on clusters, and comment on pull requests."""
