"""The colours of each theme: every meaning can be read and told from every other, also on 256 colours."""

from __future__ import annotations

import asyncio
import math
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from rich.color import Color, ColorSystem
from rich.style import Style
from support.app import Stage
from support.evening import evening_app

from gputui.tui.terminal.tty import Colours
from gputui.tui.theme import (
    CURVES,
    HEAT,
    LOADS,
    MEMORY_LEVELS,
    OTHERS_LOADS,
    Ground,
    Look,
    Palette,
    palette_of,
    theme_names,
)

MEANINGS = (Look.TEXT, Look.PAST, Look.RUNNING, Look.OK, Look.WARNING, Look.FAILURE, Look.FOCUS, Look.EXTERNAL,
            Look.BEST, Look.MEMORY)  # fmt: skip
BARS = (Look.OK_EVEN, Look.OK_ODD, Look.UNDER_WAY, Look.CRASHED, Look.CHOSEN, Look.OTHERS)
READABLE = 4.5
"""The least contrast between a text and its background, as WCAG recommends."""
DIFFERENT_TEXTS, DIFFERENT_SHADES, DIFFERENT_AREAS = 8.0, 5.0, 2.0
"""The least distances (CIEDE2000) of colours that have different meanings."""

PALETTES = pytest.mark.parametrize(
    ("colours", "name"), [(colours, name) for colours in (Colours.RGB, Colours.INDEXED) for name in ("dark", "light")]
)


def palette(colours: Colours, name: str) -> Palette:
    return palette_of(theme_names(colours)[name])


Shown = tuple[Color, Color]
"""Text and background as the terminal shows them."""


def as_shown(colours: Colours, style: Style) -> Shown:
    assert style.color is not None
    assert style.bgcolor is not None
    system = ColorSystem.TRUECOLOR if colours is Colours.RGB else ColorSystem.EIGHT_BIT
    return style.color.downgrade(system), style.bgcolor.downgrade(system)


# The screen


SCREENS = ("", "1", "1 z", "3", "K", "R", "a", "A", "c", "?", "m", "s", "enter", "enter v", "t", "=", "F", "F e", "! !",
           "* m m", "/ x", "ctrl+p r", "q")  # fmt: skip


def styles_of(directory: Path, colours: Colours, name: str, *, trouble: bool) -> set[tuple[str, Style]]:
    """The texts of all screens with their styles, as they are sent to a terminal."""
    seen: set[tuple[str, Style]] = set()

    async def history() -> None:
        app = evening_app(directory, colours=colours, theme=name, trouble=trouble)
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            stage = Stage(app, pilot, directory)
            for act in (stage.main.look, stage.main.paint, stage.main.log_pane.tick):
                await stage.settle()
                act()
            stage.main.say("a serious message", grave=True)
            for keys in SCREENS:
                await stage.press(*keys.split())
                for strip in stage.screen._compositor.render_strips(app.size):
                    seen.update((segment.text, segment.style) for segment in strip if segment.style is not None)
                while stage.screen is not stage.main:
                    await stage.press("escape")
                await stage.press("escape", "2")

    asyncio.run(history())
    return seen


@pytest.mark.parametrize(("name", "trouble"), [("dark", False), ("dark", True), ("light", True)])
def test_on_256_colours_every_screen_has_the_colours_that_were_chosen(tmp_path: Path, name: str, trouble: bool) -> None:
    styles = palette(Colours.INDEXED, name)
    grounds = [styles.on(ground, look) for ground in Ground for look in Look]
    chosen = {index_of(colour) for style in grounds for colour in (style.color, style.bgcolor) if colour is not None}
    chosen.add({"dark": 52, "light": 224}[name])  # behind serious messages
    wrong = {
        (index_of(colour), text)
        for text, style in styles_of(tmp_path, Colours.INDEXED, name, trouble=trouble)
        for colour in (style.color if text.strip() else None, style.bgcolor)
        if colour is not None and index_of(colour) not in chosen
    }
    assert not wrong


def index_of(colour: Color) -> int:
    """The index that Rich sends to a terminal with 256 colours."""
    number = colour.downgrade(ColorSystem.EIGHT_BIT).number
    assert number is not None
    return number


# Contrast and distance


@PALETTES
def test_every_text_can_be_read_on_every_background(colours: Colours, name: str) -> None:
    styles = palette(colours, name)
    for ground in Ground:
        for look in (*MEANINGS, *((*BARS, *HEAT, *CURVES) if ground is Ground.PAGE else ())):
            assert contrast(*as_shown(colours, styles.on(ground, look))) >= READABLE, (ground, look)


@PALETTES
def test_no_two_meanings_look_alike(colours: Colours, name: str) -> None:
    styles = palette(colours, name)
    texts, backgrounds = zip(*(as_shown(colours, styles[look]) for look in Look), strict=True)
    text, background = dict(zip(Look, texts, strict=True)), dict(zip(Look, backgrounds, strict=True))
    for one, other in combinations(MEANINGS, 2):
        assert distance(text[one], text[other]) >= DIFFERENT_TEXTS, (one, other)
    for one, other in combinations([Look.TEXT, *BARS], 2):
        assert distance(background[one], background[other]) >= DIFFERENT_SHADES, (one, other)
    for scale in (LOADS, OTHERS_LOADS, MEMORY_LEVELS):
        for low, high in (*pairwise(scale), *zip(scale, LOADS if scale is OTHERS_LOADS else (), strict=False)):
            assert distance(text[low], text[high]) >= DIFFERENT_SHADES, (low, high)
    for low, high in pairwise(HEAT):
        assert distance(background[low], background[high]) >= DIFFERENT_SHADES, (low, high)
    for one, other in combinations(CURVES, 2):
        assert distance(text[one], text[other]) >= DIFFERENT_TEXTS, (one, other)
    areas = {ground: as_shown(colours, styles.on(ground, Look.TEXT))[1] for ground in Ground}
    for above, below in combinations(Ground, 2):
        assert distance(areas[above], areas[below]) >= DIFFERENT_AREAS, (above, below)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("#505050", "#505050", 0.0),
        ("#000000", "#ffffff", 100.0),
        ("#d6dbe1", "#ffffff", 8.5),
        ("#87929e", "#9fb2c6", 10.1),
        ("#7fbf7f", "#5ea37d", 10.3),
        ("#1b2128", "#232b34", 3.3),
    ],
)
def test_the_distance_is_that_of_ciede2000(one: str, other: str, expected: float) -> None:
    assert distance(Color.parse(one), Color.parse(other)) == pytest.approx(expected, abs=0.1)


def linear(colour: Color) -> tuple[float, float, float]:
    parts = [part / 255 for part in colour.get_truecolor()]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def contrast(one: Color, other: Color) -> float:
    low, high = sorted(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in map(linear, (one, other)))
    return (high + 0.05) / (low + 0.05)


def lab(colour: Color) -> tuple[float, float, float]:
    red, green, blue = linear(colour)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one: Color, other: Color) -> float:
    """CIEDE2000."""
    (light, a, b), (other_light, other_a, other_b) = lab(one), lab(other)
    mean_chroma = (math.hypot(a, b) + math.hypot(other_a, other_b)) / 2
    stretched = 1.5 - 0.5 * math.sqrt(mean_chroma**7 / (mean_chroma**7 + 25**7))
    chroma, hue = math.hypot(a * stretched, b), math.degrees(math.atan2(b, a * stretched)) % 360
    other_chroma = math.hypot(other_a * stretched, other_b)
    other_hue = math.degrees(math.atan2(other_b, other_a * stretched)) % 360
    turn = (other_hue - hue + 180) % 360 - 180 if chroma * other_chroma else 0.0
    d_light, d_chroma = other_light - light, other_chroma - chroma
    d_hue = 2 * math.sqrt(chroma * other_chroma) * math.sin(math.radians(turn / 2))
    mean_light, mean_chroma = (light + other_light) / 2, (chroma + other_chroma) / 2
    mean_hue = (hue + turn / 2) % 360 if chroma * other_chroma else hue + other_hue
    t = (
        1
        - 0.17 * math.cos(math.radians(mean_hue - 30))
        + 0.24 * math.cos(math.radians(2 * mean_hue))
        + 0.32 * math.cos(math.radians(3 * mean_hue + 6))
        - 0.20 * math.cos(math.radians(4 * mean_hue - 63))
    )
    by_light = d_light / (1 + 0.015 * (mean_light - 50) ** 2 / math.sqrt(20 + (mean_light - 50) ** 2))
    by_chroma, by_hue = d_chroma / (1 + 0.045 * mean_chroma), d_hue / (1 + 0.015 * mean_chroma * t)
    blue = math.radians(60 * math.exp(-(((mean_hue - 275) / 25) ** 2)))
    rotation = -2 * math.sin(blue) * math.sqrt(mean_chroma**7 / (mean_chroma**7 + 25**7))
    return math.sqrt(by_light**2 + by_chroma**2 + by_hue**2 + rotation * by_chroma * by_hue)
