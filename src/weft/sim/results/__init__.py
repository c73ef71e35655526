"""What a simulation leaves behind: its figures, tables, files and the HTML report."""
