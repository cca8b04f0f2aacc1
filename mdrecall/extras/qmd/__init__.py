"""The qmd backend: qmd runs as a separate program, is kept up to date, searched, and killed if it hangs."""
