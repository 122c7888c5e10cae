"""What Textual keeps of widgets that are gone, and that it keeps no more."""

from textual._styles_cache import StylesCache


def let_go() -> None:
    """Let the painted lines of a widget go with it.

    Textual remembers two colours by the object that holds a widget's lines, which it does not need for them (its own
    first parameter is called `cls`); of the last thousand widgets every line and every part of a line stayed.
    """
    remembered = StylesCache.__dict__["get_inner_outer"]
    if not isinstance(remembered, classmethod):
        StylesCache.get_inner_outer = classmethod(remembered)  # type: ignore[method-assign, assignment]
