"""Why the process ends other than by being told to. Each message is the one line that it leaves behind."""


class StartUpError(Exception):
    """The model, the options or the machine are at fault; the same start would fail again."""


class BrokenEngine(Exception):
    """The engine can't go on."""
