"""Connections to servers of others: which addresses are allowed, when a call ends, and the HTTP client. No Django in here."""
