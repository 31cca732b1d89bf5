"""Allotment turns a Git repository into a GPU cloud: declarations in, Kubernetes manifests out."""

from typing import Final

VERSION = "0.1.0"
API_VERSION: Final = "allotment.dev/v1alpha1"
