"""The REST API: routes, what they accept and answer, and the connections they come over."""
