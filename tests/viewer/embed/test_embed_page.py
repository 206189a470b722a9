"""tools/viewer/embed_page.cmake: every part is inlined as it is, and a part that would break out is refused."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

VIEWER_DIR = pathlib.Path(__file__).resolve().parents[3] / "tools" / "viewer"
PAGE = """<html><link rel="stylesheet" href="a.css">
<!-- report-payload -->
<script src="d3.min.js"></script>
<script src="b.js"></script></html>
"""
# What a build script could trip over: list separators, brackets, escapes, variables, other letters.
SCRIPT = 'const a = [";", "\\n", "\\\\", `${x}`, "@y@", "$ENV{HOME}"]; // [[ é "\n'


class EmbedPage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write("report.html", PAGE)
        self.write("a.css", "p { color: red; }\n")
        self.write("b.js", SCRIPT)
        self.write("d3.js", "var d3;\n")

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def embed(self):
        files = {"PAGE": self.folder / "report.html", "D3": self.folder / "d3.js",
                 "D3_LICENCE": VIEWER_DIR / "d3_licence.txt", "OUTPUT": self.folder / "out.cpp"}
        return subprocess.run(
            [os.environ.get("MF_CMAKE", "cmake"), *[f"-D{name}={path}" for name, path in files.items()],
             "-P", VIEWER_DIR / "embed_page.cmake"], capture_output=True, text=True, check=False)

    def parts(self):
        """What stands before and after the data, from the bytes of the generated source."""
        source = (self.folder / "out.cpp").read_text()
        return [bytes(int(byte, 16) for byte in re.findall("0x(..),", line)).decode()
                for line in re.findall(r"k_\w+\[\] = \{(.*)0\};", source)]

    def refused(self, *words):
        result = self.embed()
        self.assertNotEqual(result.returncode, 0)
        message = " ".join(result.stderr.split())
        for word in words:
            self.assertIn(word, message)

    def test_parts_stand_in_the_page(self):
        result = self.embed()
        self.assertEqual(result.returncode, 0, result.stderr)
        head, tail = self.parts()
        self.assertEqual(head, "<html><style>\np { color: red; }\n</style>\n")
        self.assertTrue(tail.endswith(f"</script>\n<script>\n{SCRIPT}</script></html>\n"), tail[-300:])
        self.assertIn("Redistributions in binary form", tail)
        self.assertIn("*/\nvar d3;\n</script>", tail)

    def test_a_part_that_ends_its_element(self):
        for name, text in [("b.js", 'x = "</ScRipt>";'), ("b.js", "// <!-- x"), ("a.css", "/* </style> */")]:
            with self.subTest(text):
                self.setUp()
                self.write(name, text)
                self.refused(name, "would end its element")

    def test_what_is_not_inlined(self):
        self.write("report.html", PAGE.replace("<html>", '<html><img src="https://example.invalid/x.png">'))
        self.refused("was not inlined")

    def test_a_page_without_a_place_for_data(self):
        self.write("report.html", PAGE.replace("report-payload", "payload"))
        self.refused("has no line <!-- report-payload -->")

    def test_a_part_that_is_missing(self):
        (self.folder / "b.js").unlink()
        self.refused("b.js")


if __name__ == "__main__":
    unittest.main()
