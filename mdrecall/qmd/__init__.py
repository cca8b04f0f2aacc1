"""The qmd program as a sidecar: started, fed, asked, and killed when it does not answer."""
