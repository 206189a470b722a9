"""The page in Debian's Chromium, without a window. Leaves with status 77 (skipped) where the browser is missing."""

import base64
import json
import pathlib
import shutil
import sys
import tempfile
import time
import unittest

from sample_report import sample
from assemble import write_report

LACKING = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
except ImportError:
    LACKING.append("python3-selenium")
if not pathlib.Path("/usr/share/nodejs/d3/dist/d3.min.js").exists():
    LACKING.append("node-d3")
if LACKING:
    print(f"SKIPPED: the report page was not tested; this machine lacks: {', '.join(LACKING)}")
    sys.exit(77)

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--disable-background-networking",
    "--disable-component-update",
]


def start(downloads, width=1440, height=900):
    options = Options()
    options.binary_location = shutil.which("chromium")
    for argument in [*ARGUMENTS, f"--window-size={width},{height}"]:
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    return driver


def wait_for(what, ask, seconds=30):
    """The first true answer of ask()."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


class PageTest(unittest.TestCase):
    """A class shares one browser and a folder. A test opens a report and fails on errors in the browser's console."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="megaflux_page_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.downloads = cls.folder / "downloads"
        cls.downloads.mkdir()
        cls.driver = start(cls.downloads)
        cls.addClassCleanup(cls.driver.quit)
        cls.reports = {}

    def setUp(self):
        self.expected_errors = False

    def tearDown(self):
        errors = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        if not self.expected_errors:
            self.assertEqual(errors, [], "the console shows errors")

    # --- reports ---
    def report(self, kind):
        """(path, meta, blob) of a named sample, written once a class."""
        if kind not in self.reports:
            meta, blob = sample(kind)
            self.reports[kind] = (write_report(self.folder / f"{kind}.html", meta, blob), meta, blob)
        return self.reports[kind]

    def open_file(self, path, address=""):
        """Opens a file afresh; returns the milliseconds until it was drawn, or the words of its failure."""
        self.driver.get("about:blank")
        self.driver.get_log("performance")
        self.driver.get(f"{path.as_uri()}{address}")
        return wait_for(
            "the page is drawn",
            lambda: self.script("return window.megafluxReady || window.megafluxFailed"),
            60,
        )

    def open(self, kind, address=""):
        path, meta, _ = self.report(kind)
        drawn = self.open_file(path, address)
        self.assertIsInstance(drawn, (int, float), drawn)
        self.wait_until_settled()
        return meta

    def wait_until_settled(self):
        """Every section is drawn and nothing is waiting."""
        wait_for(
            "all sections are drawn",
            lambda: self.script(
                "return document.querySelectorAll('.section.drawn').length === megaflux.views.length"
            ),
        )
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30)));"
        )

    # --- the page ---
    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def one(self, selector):
        return wait_for(selector, lambda: self.driver.find_elements("css selector", selector))[0]

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector):
        return self.script("return document.querySelector(arguments[0]).innerText", selector)

    def click(self, selector):
        element = self.one(selector)
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        self.wait_until_settled()

    def choose(self, key):
        """A radio button, by its key; what is seen of it is the label around it."""
        self.script('document.querySelector(`[data-key="${arguments[0]}"]`).click()', key)
        self.wait_until_settled()

    def pick(self, key, value):
        """An option of a select or a number typed into a field."""
        self.script(
            """const box = document.querySelector(`[data-key="${arguments[0]}"]`);
                    box.value = arguments[1]; box.dispatchEvent(new Event('change', {bubbles: true}));""",
            key,
            str(value),
        )
        self.wait_until_settled()

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()
        self.wait_until_settled()

    def point_at(self, element, x, y):
        """Moves the pointer to (x, y) from the upper left corner of the element."""
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        box = self.script("const b = arguments[0].getBoundingClientRect(); return [b.left, b.top]", element)
        self.driver.execute_cdp_cmd(
            "Input.dispatchMouseEvent", {"type": "mouseMoved", "x": box[0] + x, "y": box[1] + y}
        )

    def address(self):
        pairs = self.script("return location.hash").lstrip("#").split("&")
        return dict(pair.split("=") for pair in pairs if pair)

    # --- what came of it ---
    def download(self, click):
        """The bytes and the name of the file that `click()` saves."""
        before = set(self.downloads.iterdir())
        click()

        def finished():
            return [
                p
                for p in set(self.downloads.iterdir()) - before
                if p.suffix in (".csv", ".png") and p.stat().st_size
            ]

        path = wait_for("the file is saved", finished)[0]
        size = -1
        while size != path.stat().st_size:
            size = path.stat().st_size
            time.sleep(0.05)
        return path.read_bytes(), path.name

    def requested(self):
        """Addresses of all requests since the file was opened."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def pdf(self):
        return base64.b64decode(
            self.driver.execute_cdp_cmd(
                "Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True}
            )["data"]
        )
