#!/usr/bin/env python3
"""Takes the pictures of the report that README.md and docs/report.md show.

    docs/images/report_screenshot.py [build/cpu/bin/megaflux]

Makes a report of two traces of data/, opens it in Chromium without a window, and writes report_*.png beside this file.
Needs the packages that ./test installs; the distribution's Python sees them.
"""

import base64
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "viewer" / "page"))

from browser import start, wait_for  # noqa: E402

TRACES = ["glm52_prefill_counts.npz", "gptoss20b_decode_topk.npz"]
OPTIONS = ["--ranks", "8", "--slots", "2", "--rows-per-rank", "65536", "--model", "6144,2048,8"]
WIDTH = 1240
# name, colours, address, section, what ends the picture
PICTURES = [
    ("report_overview", "light", "", "overview", '[data-figure="imbalance_distribution"]'),
    ("report_heatmap", "light", "#section=heatmap", "heatmap", '[data-figure="heatmap_imbalance_before"]'),
    ("report_microbatch", "dark", "#section=microbatch&trace=1&layer=10&step=57", "microbatch", '[data-figure="traffic"]'),
]

PLACE = """
const [section, last] = arguments;
const head = section === 'overview' ? 0 : document.getElementById(`section-${section}`).getBoundingClientRect().top + scrollY + 12;
const end = document.querySelector(`#section-${section} ${last}`).getBoundingClientRect().bottom + scrollY + 8;
return [head, end];
"""


def take(driver, report, picture):
    name, colours, address, section, last = picture
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": colours}]})
    driver.get("about:blank")
    driver.get(f"{report.as_uri()}{address}")
    wait_for("the page is drawn", lambda: driver.execute_script(
        "return window.megafluxReady && document.querySelectorAll('.section.drawn').length === megaflux.views.length"))
    driver.execute_script("scrollTo(0, 0)")
    wait_for("the page is at its top", lambda: driver.execute_script("return scrollY === 0"))
    top, bottom = driver.execute_script(PLACE, section, last)
    clip = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top, "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    target = pathlib.Path(__file__).with_name(f"{name}.png")
    target.write_bytes(base64.b64decode(shot["data"]))
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size:,} bytes")


def main(program):
    with tempfile.TemporaryDirectory(prefix="megaflux_picture_") as folder:
        report = pathlib.Path(folder) / "report.html"
        traces = [str(ROOT / "data" / name) for name in TRACES]
        subprocess.run([program, "report", *traces, *OPTIONS, "-o", str(report)], check=True, stdout=subprocess.DEVNULL)
        driver = start(folder, WIDTH, 900)
        try:
            for picture in PICTURES:
                take(driver, report, picture)
        finally:
            driver.quit()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/cpu/bin/megaflux"))
