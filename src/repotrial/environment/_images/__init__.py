"""OCI images: read from archives and layouts, verified, unpacked once into the store."""
