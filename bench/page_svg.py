# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""An SVG of matplotlib's, drawn in the colours of light pages, as one that follows the page: on a dark page CSS
takes the other colours. And a small one: styles are classes, numbers are as fine as a screen shows, what nobody
refers to has no name."""
import re
import xml.etree.ElementTree as ElementTree
from xml.sax.saxutils import quoteattr

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
KEPT = ("svg", "g", "defs", "path", "use", "clipPath", "rect", "text")
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
DIGITS = 2          # of an SVG's unit, 1/72 inch


def rounded(text, digits=DIGITS):
    """With the numbers that have more digits cut down."""
    def cut(match):
        short = f"{float(match.group()):.{digits}f}".rstrip("0").rstrip(".")
        return "0" if short == "-0" else short
    return NUMBER.sub(cut, text)


def path_data(text):
    return re.sub(r" ?([A-Za-z]) ?", r"\1", rounded(" ".join(text.split())))


def transform(text):
    """Scales of glyphs need more digits than places."""
    return re.sub(r"translate\([^)]*\)", lambda m: rounded(m.group()), text)


def declarations(style):
    return ";".join(f"{key.strip()}:{rounded(value.strip(), 3)}" for key, value in
                    (part.split(":", 1) for part in style.split(";") if part.strip()))


class Styles:
    """A class for each style that occurs."""

    def __init__(self, dark_of):
        self.dark_of = dark_of      # {colour on light pages: on dark ones}
        self.names = {}

    def name(self, style):
        return self.names.setdefault(declarations(style), f"s{len(self.names)}")

    def dark(self, style):
        """Those of the declarations that differ on dark pages."""
        parts = [part for part in style.split(";") if part.split(":")[1] in self.dark_of]
        return ";".join(f"{key}:{self.dark_of[value]}" for key, value in (p.split(":") for p in parts))

    def css(self):
        light = "".join(f".{name}{{{style}}}\n" for style, name in self.names.items())
        dark = "".join(f".{name}{{{self.dark(style)}}}\n" for style, name in self.names.items()
                       if self.dark(style))
        return ("*{stroke-linejoin:round;stroke-linecap:butt}\n" + light
                + "@media (prefers-color-scheme:dark){\n" + dark + "}")


class Writer:
    def __init__(self, root, dark_of):
        self.root = root
        self.styles = Styles(dark_of)
        text = ElementTree.tostring(root, encoding="unicode")
        used = dict.fromkeys(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
        self.ids = {a or b: f"i{n}" for n, (a, b) in enumerate(used)}

    def attribute(self, key, value):
        """The pair as it is written; None where it is not."""
        if key == "id":
            return ("id", self.ids[value]) if value in self.ids else None
        if key == "style":
            return ("class", self.styles.name(value)) if value.strip() else None
        if key == HREF:
            return "href", "#" + self.ids[value[1:]]
        if key == "clip-path":
            return key, f"url(#{self.ids[value[5:-1]]})"
        if key == "d":
            return key, path_data(value)
        if key == "transform":
            return key, transform(value)
        return key, rounded(value)

    def element(self, node, line="\n"):
        """Parts of a group that has a style or a place of its own stand in the group's line."""
        name = node.tag[len(SVG):] if node.tag.startswith(SVG) else None
        if name not in KEPT:
            return ""
        pairs = [p for p in (self.attribute(k, v) for k, v in node.attrib.items()) if p]
        whole = name == "g" and not pairs
        inner = "".join(self.element(child, line if whole else "") for child in node)
        if whole or name == "defs" and not inner:
            return inner
        start = line + f"<{name}" + "".join(f" {key}={quoteattr(value)}" for key, value in pairs)
        return start + (f">{inner}</{name}>" if inner else "/>")

    def write(self):
        inner = "".join(self.element(child) for child in self.root)
        size = " ".join(f'{key}="{self.root.get(key)}"' for key in ("width", "height", "viewBox"))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>\n{self.styles.css()}\n</style>'
                + inner + "\n</svg>\n")


def page_svg(text, dark_of):
    return Writer(ElementTree.fromstring(text), dark_of).write()
