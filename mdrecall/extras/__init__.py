"""Extras: what a pip extra or an outside program switches on. The core finds them by name (`mdrecall/optional.py`)."""
