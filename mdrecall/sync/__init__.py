"""One memory on several machines, by git: the merge of three trees, the repository, and one sync."""
