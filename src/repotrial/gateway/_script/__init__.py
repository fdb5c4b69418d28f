"""A canned model: a script that answers in place of a provider, for tests, demonstrations and attacks."""
