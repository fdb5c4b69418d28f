"""System calls of sandboxed programs: the filter, and the supervisor that answers what it sends up."""
