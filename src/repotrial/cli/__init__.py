"""`repotrial <noun> <verb>`: parse, call the api, print."""

from repotrial.cli._main import main

__all__ = ["main"]
