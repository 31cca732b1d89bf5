"""The test bed: a real control plane with Argo CD and Gitea, as processes of this machine, for end-to-end tests."""
