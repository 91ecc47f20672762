"""Kubernetes' own API server, without nodes: it judges manifests as that of a cluster does."""
