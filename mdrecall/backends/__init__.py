"""Who answers: the builtin backend, and how its parts are put together."""
