"""Circuit breakers as pure functions of past events (P19, B3, B6, B15, P24)."""
