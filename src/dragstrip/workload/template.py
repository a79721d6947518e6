"""Templates of requests and answers: Jinja2, in which every name must be known."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from jinja2 import Environment, StrictUndefined, Template, meta

_JINJA = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)


def names_in(text: str) -> set[str]:
    """The names that a template wants.

    Raises:
        jinja2.TemplateError: it is no template.
    """
    return meta.find_undeclared_variables(_JINJA.parse(text))


@cache
def _template(text: str) -> Template:
    return _JINJA.from_string(text)


def render(text: str, values: Mapping[str, object]) -> str:
    """A template with its values."""
    return _template(text).render(values)
