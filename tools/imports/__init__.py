"""Imports: documents of other systems in, specs of endpoints out, and from there into the catalogue."""
