"""stub"""


def explorer(lang=None):
    return "tool"
