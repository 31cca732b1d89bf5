"""Measuring: a generator of repositories, and the comparison with `helm template` and `kubectl kustomize`."""
