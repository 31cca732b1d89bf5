"""Allotment turns a Git repository into a GPU cloud: declarations in, Kubernetes manifests out."""

VERSION = "0.1.0"
API_VERSION = "allotment.dev/v1alpha1"
