"""Render an inventory as Kubernetes manifests: build them as data and write them as YAML, which the gate reads again."""
