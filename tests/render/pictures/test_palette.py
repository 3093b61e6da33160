"""Contrast, as the Web Content Accessibility Guidelines 2.2 define it."""

import pytest

from kvcalc.render.pictures.palette import colours, roles, style_sheet, variables


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2, definition)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_ratio_is_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # WebAIM's example of what just fails


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out(scheme: str) -> None:
    """Text 4.5:1 on paper and panels (1.4.3), marks 3:1 on paper (1.4.11)."""
    found = colours(scheme)
    for name in roles()["text"]:
        assert contrast(found[name], found["paper"]) >= 4.5, name
        assert contrast(found[name], found["panel"]) >= 4.5, name
    for name in roles()["marks"]:
        assert contrast(found[name], found["paper"]) >= 3, name


def test_both_schemes_have_the_same_names() -> None:
    assert colours("light").keys() == colours("dark").keys() == variables().keys()
    for name in roles()["text"] + roles()["marks"] + roles()["series"]:
        assert name in variables()


def test_the_style_sheet_sets_every_variable_in_both_schemes() -> None:
    text = style_sheet()
    for name in variables():
        assert text.count(f"--{name}:") == 2
