"""What happens between the files and the index: indexing and searching."""
