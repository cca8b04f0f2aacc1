"""How the sentence encoder in the wheel is made: text with checked licences, distillation, and the packed file.

Nothing here is part of the wheel, and nothing in mdrecall imports it. ``README.md`` says how to repeat it.
"""
