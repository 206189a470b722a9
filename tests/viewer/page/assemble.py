"""Puts a report file together: the page with its parts inlined, then the payload.

The page links its parts one a line; each such line is replaced by the file it names. What `megaflux report` writes
is put together in the same way.
"""

import base64
import json
import pathlib
import re
import zlib

PAGE_DIR = pathlib.Path(__file__).resolve().parents[3] / "tools" / "viewer" / "page"
D3_FOLDER = pathlib.Path("/usr/share/nodejs/d3/dist")
PAYLOAD_MARK = "<!-- report-payload -->"


def page_text():
    """report.html with every style sheet and script inlined."""

    def inlined(match):
        name = match.group(1) or match.group(2)
        folder = D3_FOLDER if name == "d3.min.js" else PAGE_DIR
        tag = "style" if match.group(1) else "script"
        return f"<{tag}>\n{(folder / name).read_text(encoding='utf-8')}\n</{tag}>"

    page = (PAGE_DIR / "report.html").read_text(encoding="utf-8")
    link = r'<link rel="stylesheet" href="([\w.]+)">|<script src="([\w.]+)"></script>'
    return re.sub(link, inlined, page)


def deflated(blob):
    """Raw deflate, as the page inflates it."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(blob) + packer.flush()


def report_text(meta, blob):
    """The whole file. `meta` as in the contract, `blob` the bytes that its array references point into."""
    words = json.dumps(meta, separators=(",", ":")).replace("<", "\\u003c")
    data = base64.b64encode(deflated(blob)).decode()
    elements = (
        f'<script type="application/json" id="report-meta">{words}</script>\n'
        f'<script type="application/octet-stream" id="report-data">{data}</script>'
    )
    page = page_text()
    assert page.count(PAYLOAD_MARK) == 1
    return page.replace(PAYLOAD_MARK, elements)


def write_report(path, meta, blob):
    pathlib.Path(path).write_text(report_text(meta, blob), encoding="utf-8")
    return pathlib.Path(path)
