"""What can be wrong with a model's tokenizer. The user's fault, told in one line at start-up."""


class TokenizerError(ValueError):
    """The files hold no tokenizer, a broken one, or one of a kind that is not supported."""
