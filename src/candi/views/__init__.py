"""What a person looks at: the terminal, pages, moving pictures, plots."""
