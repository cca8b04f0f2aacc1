"""What users see, recorded: the JSON of every command on a fixed workspace, the settings, the public names.

``golden/*.json`` holds what programs rely on (keys, values, scores, exit codes) and ``golden/words/*.json`` the
sentences for people. Both are compared by ``test_record.py``. After a change on purpose, write them again with
``python -m tests.record --write`` and read the difference before committing it.
"""
