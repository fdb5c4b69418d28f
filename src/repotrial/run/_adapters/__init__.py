"""Agents that ask a model, as data: how to get them, to start them, and to find what they wrote."""
