#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The flame graph's page in a real browser, over file://, with the trees of make-page.c.

usage: test-flamegraph.py MAKE-PAGE [NAME...]

Prints "ok" or "not ok" for each test. Exit status 77, a skip, where there is no browser, unless
RINGSIDE_MUST_RUN=1. RINGSIDE_SCREENSHOTS=DIRECTORY keeps pictures there."""

import base64
import os
import re
import shutil
import subprocess
import sys
import time
import traceback

from webdriver import ELEMENT, KEYS, Browser

ALL, DEMO, MAIN, COMPUTE, INNER, READ_ALL, READ, KERNEL, VFS_READ, COMPUTE_OTHER, EVIL = range(11)
FIRST_EVIL, DEEP, FIRST_RECURSE, LAST_RECURSE = 11, 21, 22, 276
HOSTILE = [
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "\"quotes\" 'single' `back` &amp;",
    r"escape \x1b[31mred\x07 bell",
    r"two\x0alines\x0d\x09and a tab",
    r"override \xe2\x80\xaetxt.exe",
    r"bad utf-8 \xff\xfe",
    r"separators \xe2\x80\xa8 \xe2\x80\xa9",
    "${window.pwned=1} javascript:window.pwned=1",
    "std::vector<std::pair<int, Ж> >::operator[](unsigned)",
]
CONTRAST = 4.5

# Text colour and the background behind it, as the browser computed them.
COLOURS_OF = """
    const e = arguments[0], pseudo = arguments[1];
    let back = e;
    while (back && /, 0\\)$|^transparent$/.test(getComputedStyle(back).backgroundColor))
        back = back.parentElement;
    return [getComputedStyle(e, pseudo).color, back ? getComputedStyle(back).backgroundColor : 'none'];
"""


class Failure(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failure(text)


def check_equal(got, want, what):
    check(got == want, f"{what}: {got!r}, not {want!r}")


def luminance(colour):
    match = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", colour)
    check(match, f"not an opaque colour: {colour}")
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (int(g) / 255 for g in match.groups())]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


class Page:
    """What the tests ask the page."""

    def __init__(self, browser, directory):
        self.browser = browser
        self.directory = directory

    def open(self, name="fixed"):
        self.browser.log()
        self.browser.set_scheme("light")
        self.browser.set_size(1280, 900)
        self.browser.open(os.path.join(self.directory, f"{name}.html"))
        self.browser.settle()

    def check_quiet(self):
        check_equal([entry["message"] for entry in self.browser.log()], [], "messages in the console")
        check_equal(self.browser.run("return typeof window.pwned"), "undefined", "window.pwned")

    def frame(self, i):
        """None where frame i is not drawn."""
        return self.browser.run("""
            const e = document.querySelector(`[data-frame="${arguments[0]}"].frame`);
            if (!e)
                return null;
            const box = e.getBoundingClientRect(), area = document.getElementById('frames').getBoundingClientRect();
            return { text: e.textContent, label: e.getAttribute('aria-label'), classes: [...e.classList],
                     left: (box.left - area.left) / area.width, width: box.width / area.width, top: box.top };""", i)

    def text(self, css):
        return self.browser.run("return document.querySelector(arguments[0]).innerText", css)

    def zoomed(self):
        return self.browser.run("return Number(document.querySelector('[aria-selected=true]').dataset.frame)")

    def focused(self):
        return self.browser.run("return Number(document.activeElement.dataset.frame ?? -1)")

    def focus(self, i):
        self.browser.run("document.querySelector(`[data-frame=\"${arguments[0]}\"]`).focus()", i)

    def click(self, i):
        self.browser.click(f'[data-frame="{i}"].frame')

    def shown(self):
        return self.browser.run("return document.querySelectorAll('.frame').length")

    def screenshot(self, name):
        where = os.environ.get("RINGSIDE_SCREENSHOTS")
        if where:
            os.makedirs(where, exist_ok=True)
            self.browser.screenshot(os.path.join(where, f"{name}.png"))


def about(got, want):
    return abs(got - want) < 0.004


def check_box(page, i, left, width):
    frame = page.frame(i)
    check(frame, f"frame {i} is not drawn")
    check(about(frame["left"], left) and about(frame["width"], width),
          f"frame {i} is at {frame['left']:.3f}, {frame['width']:.3f} wide, not {left}, {width}")


def test_widths(page):
    page.open()
    for i, left, width in ((ALL, 0, 1), (DEMO, 0, 0.7), (COMPUTE, 0, 0.4), (INNER, 0, 0.3), (READ_ALL, 0.4, 0.15),
                           (COMPUTE_OTHER, 0.55, 0.1), (EVIL, 0.7, 0.2), (DEEP, 0.9, 0.1)):
        check_box(page, i, left, width)
    page.check_quiet()


def test_header(page):
    page.open()
    check_equal(page.text("h1"), "./demo --size 10 '</script><script>window.pwned=1</script>'", "the heading")
    facts = page.browser.run("""
        return Object.fromEntries([...document.querySelectorAll('#facts div')].map(d => [d.children[0].textContent, d.children[1].textContent]))""")
    check_equal(facts, {
        "Host": "host<b> (6.1.0 x86_64)", "Recorded": "2025-06-15 15:06:40 UTC", "Duration": "10.5 s",
        "Event": "cpu-clock, 100 Hz", "Samples": "1,000", "Lost": "10 (0.99 %)", "Truncated stacks": "20.0 %",
    }, "the facts")
    check("without frame pointers" in page.text("#notes"), "no word on frame pointers")
    check("demo" in page.browser.run("return document.title"), "the title does not name the command")


def test_offline(page):
    page.open()
    check_equal(page.browser.run("return location.protocol"), "file:", "the protocol")
    check_equal(page.browser.run("return performance.getEntriesByType('resource').length"), 0, "things loaded")
    check_equal(page.browser.run("return document.querySelectorAll('[src], [href], img, iframe, object, embed').length"),
                0, "elements that load")


def test_policy(page):
    """The policy is in force: code that is not the page's own does not run, by three ways."""
    page.open()
    page.check_quiet()
    page.browser.run("""
        const script = document.createElement('script');
        window.thrown = 0;
        try { script.textContent = 'window.injected = 1'; document.body.append(script); } catch { thrown++; }
        try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.injected = 2">'); } catch { thrown++; }
        try { const e = document.createElement('p'); document.body.append(e); e.setAttribute('onclick', 'window.injected = 3'); e.click(); } catch { }
        const image = new Image();
        window.loads = new Promise(done => { image.onload = () => done('loaded'); image.onerror = () => done('refused'); });
        image.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=';""")
    page.browser.settle()
    check_equal(page.browser.run("return typeof window.injected"), "undefined", "window.injected")
    check_equal(page.browser.run("return window.loads"), "refused", "an image")
    check_equal(page.browser.run("return window.thrown"), 2, "strings refused as markup and script")
    check(any("Content Security Policy" in entry["message"] for entry in page.browser.log()), "the policy refused nothing")


def test_hostile_names(page):
    page.open()
    names = [page.frame(FIRST_EVIL + i)["label"].split(", ")[0] for i in range(len(HOSTILE))]
    for name in HOSTILE:
        check(any(n == name.split(", ")[0] for n in names), f"not shown as it should be: {name}")
    # Wide enough for text, and through every place a name gets into.
    for i in range(len(HOSTILE)):
        page.click(FIRST_EVIL + i)
        page.browser.hover(f'[data-frame="{FIRST_EVIL + i}"].frame')
        text = page.frame(FIRST_EVIL + i)["text"]
        check(text in HOSTILE, f"the frame's text: {text!r}")
        check_equal(page.text("#tip .name"), text, "the tooltip")
        check_equal(page.text("#path [aria-current]"), text, "the path")
        page.browser.press("Escape")
    check_equal(page.browser.run("return document.querySelectorAll('script').length"), 2, "script elements")
    check_equal(page.browser.run("return document.querySelectorAll('img, b b, style style').length"), 0, "elements made of names")
    page.check_quiet()


def test_zoom(page):
    page.open()
    page.click(COMPUTE)
    check_equal(page.zoomed(), COMPUTE, "zoomed to")
    check_box(page, COMPUTE, 0, 1)
    check_box(page, INNER, 0, 0.75)
    check_box(page, MAIN, 0, 1)
    check(page.frame(COMPUTE_OTHER) is None, "a sibling is still drawn")
    check("caller" in page.frame(MAIN)["classes"], "the caller is not marked")
    check_equal(page.text("#path").split(), ["all", "demo", "main", "compute"], "the path")
    check_equal(page.text("#summary"), "400 samples · 4.00 s CPU time · 40.0 % of all · self 10.0 %", "the summary")
    page.browser.press("Escape")
    check_equal(page.zoomed(), ALL, "after Escape")
    check_box(page, COMPUTE, 0, 0.4)

    page.click(COMPUTE)
    page.browser.click("#reset")
    check_equal(page.zoomed(), ALL, "after the button")
    page.click(INNER)
    page.browser.click(f'#path [data-frame="{MAIN}"]')
    check_equal(page.zoomed(), MAIN, "after a step of the path")
    page.click(DEMO)
    check_equal(page.zoomed(), DEMO, "after a click on a caller")
    page.check_quiet()


def test_direction(page):
    page.open()
    check(page.frame(ALL)["top"] > page.frame(DEMO)["top"] > page.frame(MAIN)["top"], "flames do not rise")
    page.browser.click("#icicle")
    check(page.frame(ALL)["top"] < page.frame(DEMO)["top"] < page.frame(MAIN)["top"], "icicles do not hang")
    check_equal(page.browser.run("return [flame.ariaPressed, icicle.ariaPressed]"), ["false", "true"], "pressed")
    check_box(page, COMPUTE, 0, 0.4)
    page.browser.click("#flame")
    check(page.frame(ALL)["top"] > page.frame(DEMO)["top"], "flames do not rise again")
    page.check_quiet()


def test_keyboard(page):
    page.open()
    page.focus(ALL)
    for key, want in (("ArrowUp", DEMO), ("ArrowUp", MAIN), ("ArrowUp", COMPUTE), ("ArrowRight", READ_ALL),
                      ("ArrowRight", COMPUTE_OTHER), ("ArrowRight", COMPUTE_OTHER), ("ArrowLeft", READ_ALL),
                      ("ArrowUp", READ), ("ArrowDown", READ_ALL), ("ArrowDown", MAIN), ("ArrowDown", DEMO),
                      ("ArrowRight", EVIL), ("ArrowRight", DEEP), ("Home", ALL), ("ArrowDown", ALL)):
        page.browser.press(key)
        check_equal(page.focused(), want, f"focus after {key}")
        check_equal(page.browser.run("return document.querySelectorAll('.frame[tabindex=\"0\"]').length"), 1, "tab stops")
    check("1,000 samples" in page.frame(ALL)["label"], "the label does not tell the samples")

    page.browser.press("ArrowUp", "Enter")
    check_equal((page.zoomed(), page.focused()), (DEMO, DEMO), "after Enter")
    page.browser.press("ArrowUp", "ArrowDown", "ArrowDown")
    check_equal((page.zoomed(), page.focused()), (ALL, ALL), "after walking out")
    page.browser.press("ArrowUp", "Enter", "Escape")
    check_equal((page.zoomed(), page.focused()), (ALL, ALL), "after Escape")

    page.browser.click("#icicle")
    page.focus(ALL)
    page.browser.press("ArrowDown", "ArrowDown")
    check_equal(page.focused(), MAIN, "focus in icicles")
    page.browser.press("ArrowUp")
    check_equal(page.focused(), DEMO, "focus in icicles")

    page.browser.press("/")
    check_equal(page.browser.run("return document.activeElement.id"), "search", "focus after /")
    page.browser.press("a", "/")
    check_equal(page.browser.run("return search.value"), "a/", "the text searched for")
    page.browser.press("Escape")
    check_equal(page.browser.run("return search.value"), "", "the text after Escape")
    page.check_quiet()


def test_search(page):
    page.open()
    page.browser.type("#search", "COMPUTE")
    check_equal(page.text("#matches"), "2 frames match: 500 of 1,000 samples, 50.0 % of CPU time", "substring")
    for i in (COMPUTE, COMPUTE_OTHER):
        check("match" in page.frame(i)["classes"] and "matches the search" in page.frame(i)["label"], f"frame {i} is not marked")
    check("match" not in page.frame(INNER)["classes"], "a frame that does not match is marked")
    outline = page.browser.run("return getComputedStyle(document.querySelector('.frame.match')).boxShadow")
    check("inset" in outline, f"a match has no outline: {outline}")

    page.click(MAIN)
    check("(71.4 % of what is zoomed to)" in page.text("#matches"), f"share of the zoom: {page.text('#matches')}")
    page.click(INNER)
    check("(100.0 % of what is zoomed to)" in page.text("#matches"), "a caller that matches holds all of the zoom")
    page.browser.press("Escape")

    for text, regex, want in (
            ("recurse", False, "255 frames match: 100 of 1,000 samples, 10.0 % of CPU time"),
            ("^(inner|read)$", True, "2 frames match: 450 of 1,000 samples, 45.0 % of CPU time"),
            ("^(inner|read)$", False, "No match"),
            ("libm.so", False, "1 frame matches: 300 of 1,000 samples, 30.0 % of CPU time"),
            (".", True, "277 frames match: 1,000 of 1,000 samples, 100.0 % of CPU time"),
            ("[", True, "Not a regular expression"),
            ("</script>", False, "1 frame matches: 20 of 1,000 samples, 2.0 % of CPU time")):
        page.open()
        if regex:
            page.browser.click("#regex")
        page.browser.type("#search", text)
        check(page.text("#matches").startswith(want), f"{text}: {page.text('#matches')}, not {want}")

    page.open()
    page.browser.type("#search", "compute" + KEYS["Enter"])
    check_equal(page.focused(), COMPUTE, "focus after Enter")
    page.check_quiet()


def test_tooltip(page):
    page.open()
    page.click(MAIN)
    page.browser.hover(f'[data-frame="{READ}"].frame')
    rows = page.browser.run("return [...document.querySelectorAll('#tip tr')].map(r => [...r.cells].map(c => c.innerText))")
    check_equal([page.text("#tip .name"), page.text("#tip .file")], ["read", "libc.so.6"], "what the tooltip names")
    check_equal(rows, [["", "samples", "CPU time", "of all", "of zoom"], ["total", "150", "1.50 s", "15.0 %", "21.4 %"],
                       ["self", "30", "300 ms", "3.0 %", "4.3 %"]], "the tooltip")
    page.browser.hover(f'[data-frame="{VFS_READ}"].frame')
    check_equal([page.text("#tip .name"), page.text("#tip .file")], ["[k] vfs_read", "kernel"], "the kernel's tooltip")
    page.browser.press("Escape")
    check(page.browser.run("return tip.hidden"), "the tooltip stays")


def test_not_by_colour_alone(page):
    page.open()
    check_equal(page.frame(VFS_READ)["text"], "[k] vfs_read", "a kernel function")
    check_equal(page.frame(KERNEL)["text"], "[kernel]", "the kernel")
    check("kernel function" in page.frame(VFS_READ)["label"], "the kernel is not in the label")


def check_contrast(page, scheme, what, colours):
    ratio = contrast(*colours)
    check(ratio >= CONTRAST, f"{scheme}, {what}: {colours[0]} on {colours[1]} is {ratio:.2f}:1")


def test_contrast(page):
    page.open()
    page.click(MAIN)
    page.browser.type("#search", "compute")
    page.browser.hover(f'[data-frame="{READ}"].frame')
    palette = page.browser.run("""
        return [...document.styleSheets[0].cssRules].map(r => /^\\.(c\\d+|other|plain|kernel)$/.exec(r.selectorText)).filter(Boolean).map(m => m[1])""")
    check_equal(len(palette), 11, "colours in the style")
    backgrounds = {}
    for scheme in "light", "dark":
        page.browser.set_scheme(scheme)
        page.browser.settle()
        seen = set()
        for colour in palette:
            for state in "", " match", " faded", " caller", " faded caller", " match caller":
                colours = page.browser.run("""
                    const e = document.createElement('div');
                    e.className = `frame ${arguments[0]}`;
                    document.getElementById('frames').append(e);
                    const style = getComputedStyle(e), colours = [style.color, style.backgroundColor, style.opacity];
                    e.remove();
                    return colours;""", colour + state)
                check_equal(colours.pop(), "1", "opacity")
                check_contrast(page, scheme, colour + state, colours)
                if not state:
                    seen.add(colours[1])
        check_equal(len(seen), len(palette), f"{scheme}: colours that differ")
        backgrounds[scheme] = seen
        for css, pseudo in (("h1", None), ("#facts dt", None), ("#facts dd", None), ("#facts .warn dd", None), ("#search", None),
                            ("#search", "::placeholder"), ("#finder label", None), ("#flame", None), ("#icicle", None),
                            ("#reset", None), ("#matches", None), ("#path button", None), ("#path [aria-current]", None),
                            ("#summary", None), ("#legend li", None), ("#legend b", None), ("#notes", None), ("kbd", None),
                            ("#maker", None), ("#tip .name", None), ("#tip .file", None), ("#tip th", None), ("#tip td", None)):
            element = {ELEMENT: page.browser.find(css)}
            check_contrast(page, scheme, f"{css} {pseudo or ''}", page.browser.run(COLOURS_OF, element, pseudo))
        page.screenshot(f"zoom-{scheme}")
    check(not backgrounds["light"] & backgrounds["dark"], "the dark scheme does not take effect")


def test_deep(page):
    page.open()
    check(page.browser.run("return chart.scrollHeight > 2 * chart.clientHeight"), "a deep stack does not scroll")
    check(page.frame(ALL)["top"] < 900, "the root is not in view at first")
    page.click(DEEP)
    for _ in range(17):
        page.browser.press(*["ArrowUp"] * 15)
    check_equal(page.focused(), LAST_RECURSE, "the end of the stack")
    box = page.browser.run("""
        const e = document.activeElement.getBoundingClientRect(), c = chart.getBoundingClientRect();
        return e.top >= c.top - 1 && e.bottom <= c.bottom + 1""")
    check(box, "the focused frame is not in view")
    page.browser.press("Enter")
    check_equal(page.zoomed(), LAST_RECURSE, "zoomed to")
    check_equal(page.text("#path").split()[:3], ["all", "deep", "…"], "a long path")
    page.browser.run("chart.scrollTop = chart.scrollHeight / 2")
    page.browser.settle()
    check(page.frame((FIRST_RECURSE + LAST_RECURSE) // 2), "what is scrolled to is not drawn")
    page.check_quiet()


def test_narrow(page):
    page.open()
    for scheme in "light", "dark":
        page.browser.set_scheme(scheme)
        page.browser.set_size(400, 800)
        check(page.browser.run("return document.documentElement.scrollWidth <= 400"), "wider than 400 pixels")
        for css in "#search", "#regex", "#flame", "#icicle", "#reset", "#chart":
            box = page.browser.run("const r = document.querySelector(arguments[0]).getBoundingClientRect(); return [r.left, r.right]", css)
            check(box[0] >= 0 and box[1] <= 400, f"{css} is cut off: {box}")
        page.screenshot(f"narrow-{scheme}")
    page.click(COMPUTE)
    check_box(page, INNER, 0, 0.75)
    page.browser.hover(f'[data-frame="{INNER}"].frame')
    check(page.browser.run("const r = tip.getBoundingClientRect(); return r.left >= 0 && r.right <= 400"), "the tooltip is cut off")
    page.check_quiet()


def test_print(page):
    page.open()
    before = page.shown()
    check(before < 277, "everything is drawn at once")
    page.browser.run("dispatchEvent(new Event('beforeprint'))")
    check_equal(page.shown(), 277, "frames for the printer")
    page.browser.run("dispatchEvent(new Event('afterprint'))")
    check_equal(page.shown(), before, "frames after it")
    page.browser.devtools("Emulation.setEmulatedMedia", media="print",
                          features=[{"name": "prefers-color-scheme", "value": "dark"}])
    try:
        check_equal(page.browser.run("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)", "paper")
        check_equal(page.browser.run("return getComputedStyle(tools).display"), "none", "the buttons on paper")
    finally:
        page.browser.devtools("Emulation.setEmulatedMedia", media="")
    # 257 rows of 20 pixels are more than one sheet.
    pdf = base64.b64decode(page.browser.devtools("Page.printToPDF")["data"])
    sheets = len(re.findall(rb"/Type\s*/Page\b", pdf))
    check(sheets >= 5, f"only {sheets} sheets are printed")
    page.check_quiet()


def test_empty(page):
    page.open("empty")
    check_equal(page.text("#chart"), "No samples", "the chart")
    page.browser.press("Escape", "/")
    page.check_quiet()


def test_big(page):
    size = os.path.getsize(os.path.join(page.directory, "big.html"))
    check(1000000 < size < 5000000, f"the page has {size} bytes")
    begin = time.monotonic()
    page.open("big")
    check(time.monotonic() - begin < 20, "loading takes too long")
    kept = page.browser.run("return JSON.parse(data.textContent).frames.length / 6")
    left_out = int(re.match(r"([\d,]+) frames of at most 0\.\d+ % each are left out", page.text("#notes"))[1].replace(",", ""))
    check_equal(kept + left_out, 200000, "frames and what is left out")
    check(kept > 40000, f"only {kept} frames")
    check(page.shown() < 20000, f"{page.shown()} elements")

    times = {}
    for what, act in (("zoom", lambda: page.click(2)), ("reset", lambda: page.browser.press("Escape")),
                      ("search", lambda: page.browser.type("#search", "step_1"))):
        begin = time.monotonic()
        act()
        times[what] = time.monotonic() - begin
        check(times[what] < 8, f"{what} takes {times[what]:.1f} s")
    check(page.text("#matches").endswith(", without what is left out"), f"the search seems to know all: {page.text('#matches')}")
    page.browser.hover('[data-frame="1"].frame')
    check("left out" in page.text("#tip") or "left out" in page.text("#legend"), "what is left out is not told")
    page.screenshot("big")
    page.check_quiet()
    print("# " + ", ".join(f"{what} {seconds:.2f} s" for what, seconds in times.items()))


def run_tests(page, names):
    failed = 0
    tests = {name: function for name, function in globals().items() if name.startswith("test_") and (not names or name in names)}
    for number, (name, test) in enumerate(tests.items(), 1):
        try:
            test(page)
        except Exception as e:  # the other tests still tell something
            failed += 1
            print(f"not ok {number} {name}")
            print("# " + (str(e) if isinstance(e, Failure) else traceback.format_exc()).replace("\n", "\n# "), flush=True)
        else:
            print(f"ok {number} {name}", flush=True)
    print(f"1..{len(tests)}")
    return failed


def main():
    make_page = os.path.abspath(sys.argv[1])
    driver, browser = shutil.which("chromedriver"), shutil.which("chromium")
    if not driver or not browser:
        print("no chromedriver or no chromium (packages chromium-driver, chromium)")
        return 1 if os.environ.get("RINGSIDE_MUST_RUN") == "1" else 77
    with Browser(driver, browser) as b:
        for name in "fixed", "big", "empty":
            subprocess.run([make_page, name, os.path.join(b.directory, f"{name}.html")], check=True)
        return 1 if run_tests(Page(b, b.directory), sys.argv[2:]) else 0


sys.exit(main())
