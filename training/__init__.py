"""How the offline embedding table is made: text from packages, a teacher, a student, and the files that ship.

Nothing here is part of the wheel, and nothing in mdrecall imports it. ``docs/offline-model.md`` describes it.
"""
