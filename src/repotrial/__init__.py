"""RepoTrial: coding agents on trial, on real repositories, with executable contracts."""

__version__ = "0.1.0"

__all__ = ["__version__"]
