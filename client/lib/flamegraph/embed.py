#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Turns the flame graph's template, style and script into a C header with the page before and after
its data. Style and script are allowed by their hashes, so their bytes go in exactly as they are.

usage: embed.py TEMPLATE STYLE SCRIPT OUTPUT"""

import base64
import hashlib
import sys


def read(path):
    with open(path, encoding="utf-8", newline="") as f:
        return f.read()


def csp_hash(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def c_string(name, text):
    lines = []
    for line in text.splitlines(keepends=True):
        escaped = "".join(
            c if c.isascii() and c.isprintable() and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode())
            for c in line)
        lines.append(f'        "{escaped}"')
    return f"static const char {name}[] =\n" + "\n".join(lines) + ";\n"


def main():
    template, style, script, output = sys.argv[1:]
    style, script = read(style), read(script)
    for text, end in (style, "</style"), (script, "</script"):
        if end in text.lower() or "<!--" in text:
            sys.exit(f"embed.py: {end} or <!-- would end the element")
    page = read(template)
    for key, value in (
        ("@STYLE_HASH@", csp_hash(style)),
        ("@SCRIPT_HASH@", csp_hash(script)),
        ("@STYLE@", style),
        ("@SCRIPT@", script),
    ):
        if page.count(key) != 1:
            sys.exit(f"embed.py: {key} must stand once in the template")
        page = page.replace(key, value)
    head, tail = page.split("@DATA@")
    with open(output, "w", encoding="ascii") as f:
        f.write("/* Made by embed.py. */\n#pragma once\n\n")
        f.write(c_string("flamegraph_page_head", head))
        f.write("\n")
        f.write(c_string("flamegraph_page_tail", tail))


main()
