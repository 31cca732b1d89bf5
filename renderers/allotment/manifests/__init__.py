"""Render the declarations as Kubernetes manifests: build the manifests as dicts, and write them as YAML."""
