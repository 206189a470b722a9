"""From the overview to a microbatch to an expert, by pointer and by keyboard; the address, Back, traces, colours."""

import unittest

from selenium.webdriver.common.keys import Keys

from browser import PageTest
from report_arrays import TraceArrays


class Clicks(PageTest):
    def test_overview_to_microbatch_to_expert(self):
        meta = self.open("sources")
        arrays = TraceArrays(meta, self.report("sources")[2])
        self.click('[data-figure="worst_before"] tbody tr:nth-child(2) button')
        order = (-arrays.cells("imbalance_before")).argsort(kind="stable")
        self.assertEqual(self.address()["section"], "microbatch")
        self.assertEqual(int(self.address()["step"]) * arrays.L + int(self.address()["layer"]), order[1])
        self.assertEqual(self.script("return document.activeElement.id"), "title-microbatch")
        self.assertLess(
            abs(
                self.script(
                    "return document.getElementById('section-microbatch').getBoundingClientRect().top"
                )
                - 52
            ),
            30,
        )
        expert = self.one('[data-figure="replicas"] tbody button').get_attribute("data-expert")
        self.click('[data-figure="replicas"] tbody button')
        self.assertEqual(self.address()["section"], "expert")
        self.assertEqual(self.address()["expert"], expert)
        self.assertIn(f"Rows of expert {expert}", self.text("#section-expert"))

    def test_a_segment_of_a_stack_leads_to_its_expert(self):
        self.open("sources")
        expert = self.script(
            """const tallest = [...document.querySelectorAll('.segment')].sort((a, b) => b.getAttribute('height') - a.getAttribute('height'))[0];
                                tallest.scrollIntoView({block: 'center'}); tallest.dispatchEvent(new MouseEvent('click', {bubbles: true})); return tallest.dataset.expert"""
        )
        self.wait_until_settled()
        self.assertEqual(self.address()["expert"], expert)

    def test_a_layer_opens_its_worst_microbatch(self):
        self.open("small")
        chart = self.one('[data-figure="layers_imbalance"] svg')
        self.script(
            "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true, clientX: arguments[0].getBoundingClientRect().left + 70}))",
            chart,
        )
        self.wait_until_settled()
        self.assertEqual((self.address()["section"], self.address()["layer"]), ("microbatch", "0"))

    def test_a_cell_of_the_heat_map_opens(self):
        self.open("small")
        canvas = self.one(".heat canvas")
        self.script("arguments[0].scrollIntoView({block: 'center'})", canvas)
        width, height = self.script("return [arguments[0].clientWidth, arguments[0].clientHeight]", canvas)
        # Layer 5, step 31 of 16 layers x 40 steps.
        x, y = self.script("const b = arguments[0].getBoundingClientRect(); return [b.left, b.top]", canvas)
        at = {"x": x + width * 31.5 / 40, "y": y + height * 5.5 / 16, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, **at})
        self.wait_until_settled()
        self.assertEqual(
            [self.address()[name] for name in ("section", "layer", "step")], ["microbatch", "5", "31"]
        )


class Address(PageTest):
    def test_a_place_survives_a_reload(self):
        self.open("small", "#section=expert&trace=0&layer=2&step=7&expert=9")
        before = self.address()
        self.assertEqual(
            before, {"section": "expert", "trace": "0", "layer": "2", "step": "7", "expert": "9"}
        )
        self.driver.refresh()
        self.one(".section-expert.drawn")
        self.wait_until_settled()
        self.assertEqual(self.address(), before)
        self.assertIn("Rows of expert 9 in layer 2", self.text("#section-expert"))
        self.assertEqual(
            self.script("return document.querySelector('.sections [aria-current]').dataset.section"), "expert"
        )

    def test_back_returns_to_the_place_before(self):
        self.open("small")
        self.click('[data-figure="worst_before"] tbody tr:nth-child(1) button')
        first = self.text("#section-microbatch .cell-title")
        self.pick("cell-step", 11)
        self.assertNotEqual(self.text("#section-microbatch .cell-title"), first)
        self.driver.back()
        self.wait_until_settled()
        self.assertEqual(self.text("#section-microbatch .cell-title"), first)
        self.driver.back()
        self.wait_until_settled()
        self.assertEqual(self.address().get("section", "overview"), "overview")

    def test_an_impossible_address_becomes_a_place_that_exists(self):
        meta = self.open("small", "#section=nowhere&trace=7&with=0&layer=400&step=-3&expert=99999")
        worst = TraceArrays(meta, self.report("small")[2]).worst_cell()
        self.assertIn(f"layer {worst % 16}, step {worst // 16}", self.text("#section-microbatch .cell-title"))

    def test_typed_numbers_are_kept_inside_the_trace(self):
        self.open("small")
        self.pick("cell-layer", 3)
        self.pick("cell-step", 999)
        self.assertIn("layer 3, step 39", self.text(".cell-title"))
        self.assertEqual(self.script("return document.querySelector('[data-key=cell-step]').value"), "39")


class Keyboard(PageTest):
    def test_heat_map_cursor_moves_and_opens(self):
        self.open("small", "#layer=4&step=10")
        self.script("document.querySelector('.heat canvas').focus()")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        self.assertEqual((self.address()["layer"], self.address()["step"]), ("6", "11"))
        self.assertIn("layer 6, step 11", self.text("#spoken"))
        self.assertIn("layer 6, step 11", self.text("#tooltip"))
        self.press(Keys.ENTER)
        self.assertEqual(self.address()["section"], "microbatch")
        self.assertIn("layer 6, step 11", self.text("#section-microbatch .cell-title"))

    def test_heat_map_zooms_and_shows_all_again(self):
        self.open("small", "#layer=4&step=10")
        ticks = "return [...document.querySelectorAll('.heat-over .tick-text')].map((t) => t.textContent).join(' ')"
        everything = self.script(ticks)
        self.script("document.querySelector('.heat canvas').focus()")
        self.press("+", "+")
        self.assertNotEqual(self.script(ticks), everything)
        self.press("0")
        self.assertEqual(self.script(ticks), everything)

    def test_number_keys_go_to_sections_and_n_to_the_next_detail(self):
        meta = self.open("small")
        self.press("4")
        self.assertEqual(self.address()["section"], "microbatch")
        arrays = TraceArrays(meta, self.report("small")[2])
        cells = arrays.details("cell").tolist()
        following = cells[cells.index(arrays.worst_cell()) + 1]
        self.press("n")
        self.assertEqual(int(self.address()["step"]) * arrays.L + int(self.address()["layer"]), following)
        self.press("p")
        self.assertEqual(
            int(self.address()["step"]) * arrays.L + int(self.address()["layer"]), arrays.worst_cell()
        )

    def test_tab_reaches_every_kind_of_control_with_a_visible_ring(self):
        self.open("sources", "#expert=3")
        reached, unseen = set(), []
        for _ in range(260):
            self.driver.switch_to.active_element.send_keys(Keys.TAB)
            kind, ring = self.script(
                """const a = document.activeElement, seen = a.type === 'radio' ? a.nextSibling : a;
                const kind = a.closest('[data-figure]') && /svg|canvas/i.test(a.tagName) ? a.closest('[data-figure]').dataset.figure : a.dataset.key || a.className || a.id || a.tagName;
                return [String(kind), getComputedStyle(seen).outlineStyle !== 'none' && getComputedStyle(seen).outlineWidth !== '0px']"""
            )
            if kind == "BODY":
                break
            reached.add(kind)
            if not ring:
                unseen.append(kind)
        for kind in (
            "skip-link",
            "heat-metric",
            "heat-side-before",
            "heatmap_imbalance_before",
            "rank_bars",
            "expert_stacks",
            "traffic",
            "cell-layer",
            "cell-step",
            "cell-next",
            "cell-mode-both",
            "expert-number",
            "churn",
            "what-if-ranks",
            "sort-p99-0",
            "what_if-csv",
            "theme-auto",
        ):
            self.assertIn(kind, reached)
        self.assertEqual(unseen, [])

    def test_focus_stays_when_a_section_is_drawn_again(self):
        self.open("small")
        self.script("document.querySelector('[data-key=cell-next]').focus()")
        self.press(Keys.ENTER)
        self.press(Keys.ENTER)
        self.assertEqual(self.script("return document.activeElement.dataset.key"), "cell-next")

    def test_keys_are_listed(self):
        self.open("small")
        self.press("?")
        self.assertTrue(self.script("return document.querySelector('dialog').open"))
        self.press(Keys.ESCAPE)
        self.assertFalse(self.script("return document.querySelector('dialog').open"))

    def test_charts_and_controls_have_names(self):
        self.open("sources", "#expert=3")
        nameless = self.script(
            """return [...document.querySelectorAll('button, select, input, canvas, svg[tabindex], [role=region]')].filter((node) => {
            const label = node.getAttribute('aria-label') || node.innerText || (node.labels && node.labels.length && node.labels[0].innerText);
            return !String(label || '').trim(); }).map((node) => node.outerHTML.slice(0, 120))"""
        )
        self.assertEqual(nameless, [])


class TwoTraces(PageTest):
    def test_stand_side_by_side_on_shared_scales(self):
        self.open("pair")
        self.pick("trace-b", 1)
        self.assertEqual(self.address()["with"], "1")
        ticks = self.script(
            """return [...document.querySelectorAll('#section-layers [data-pane]')].map((pane) =>
            [...pane.querySelectorAll('.axis.y .tick text')].map((t) => t.textContent).join(' '))"""
        )
        self.assertEqual(len(ticks), 2)
        self.assertEqual(*ticks)
        left, right = self.script(
            "return [...document.querySelectorAll('#section-heatmap [data-pane]')].map((p) => { const b = p.getBoundingClientRect(); return [b.left, b.top] })"
        )
        self.assertLess(left[0], right[0])
        self.assertEqual(left[1], right[1])
        legends = self.script(
            "return [...document.querySelectorAll('#section-heatmap .ramp-legend')].map((l) => l.innerText)"
        )
        self.assertEqual(*legends)

    def test_what_a_trace_lacks_is_said_in_its_pane(self):
        self.open("pair", "#with=1&layer=14&step=20")
        second = lambda section: self.text(f"#section-{section} [data-pane='1']")
        self.assertIn("No shape of a model was given", second("overview"))
        self.assertIn("Steps are not in time order", second("churn"))
        self.assertIn("Not in this trace", second("microbatch"))

    def test_traces_change_places(self):
        self.open("pair", "#with=1")
        self.pick("trace-a", 1)
        self.assertEqual((self.address()["trace"], self.address()["with"]), ("1", "0"))
        self.pick("trace-b", "")
        self.assertNotIn("with", self.address())


class Colours(PageTest):
    def luminance(self):
        red, green, blue = self.script(
            "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
        )
        return 0.3 * red + 0.6 * green + 0.1 * blue

    def test_dark_light_and_as_the_system_has_it(self):
        self.open("small")
        self.choose("theme-dark")
        self.assertLess(self.luminance(), 60)
        self.choose("theme-light")
        self.assertGreater(self.luminance(), 200)
        self.choose("theme-auto")
        for scheme, is_dark in (("dark", True), ("light", False)):
            self.driver.execute_cdp_cmd(
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
            )
            self.wait_until_settled()
            self.assertEqual(self.luminance() < 60, is_dark)

    def test_heat_map_changes_with_them(self):
        self.open("small")
        pixel = "const c = document.querySelector('.heat canvas'); return [...c.getContext('2d').getImageData(4, 4, 1, 1).data].join()"
        self.choose("theme-light")
        light = self.script(pixel)
        self.choose("theme-dark")
        self.assertNotEqual(self.script(pixel), light)
        self.choose("theme-auto")

    def test_text_has_contrast_in_both(self):
        self.open("small")
        for mode in ("light", "dark"):
            self.choose(f"theme-{mode}")
            weak = self.script("""
                const parts = (text) => text.match(/[\\d.]+/g).map(Number);
                const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
                const behind = (node) => { for (; node; node = node.parentElement) { const c = parts(getComputedStyle(node).backgroundColor); if (c.length < 4 || c[3] > 0.99) return c; } return [255, 255, 255]; };
                return [...document.querySelectorAll('h1, h2, h3, p, .card-label, .card-value, .card-note, dt, dd, th, td, .before-ink, .after-ink, .sections a')]
                    .filter((n) => n.innerText && n.innerText.trim() && !n.closest('.over-row, .best-row, dialog, .unseen'))
                    .filter((n) => { const [a, b] = [light(parts(getComputedStyle(n).color)), light(behind(n))]; return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5; })
                    .map((n) => `${n.className} ${n.innerText.slice(0, 40)} ${getComputedStyle(n).color}`)""")
            self.assertEqual(weak[:5], [], mode)
        self.choose("theme-auto")


if __name__ == "__main__":
    unittest.main()
