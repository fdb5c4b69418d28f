class BookError(Exception):
    """What is wrong with a book, with the line where it was found."""

    def __init__(self, message, line=None):
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line
