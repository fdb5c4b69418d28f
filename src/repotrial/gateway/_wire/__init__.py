"""The wire formats of models: routes, requests, answers and errors of four dialects. Pure."""
