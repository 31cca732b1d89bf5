"""What Kubernetes gets: an inventory becomes manifests, built as data, written as text, and read again by a gate."""
