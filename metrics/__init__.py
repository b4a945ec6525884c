"""How tools fare: the statistics of their calls, and the log of searches. It knows a tool by its UUID alone."""
