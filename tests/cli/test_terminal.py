"""How output looks: pure JSON on standard output, colour on terminals only, ASCII where there is no UTF-8."""

import json
import subprocess

from program import PROGRAM, ProgramTest, call, call_on_terminal, environment

ESCAPE = "\x1b["


class StandardOutput(ProgramTest):
    def test_json_dash_is_pure(self):
        loads = self.loads()
        small_run = ["run", "--tokens", 128, "--hidden", 16, "--inter", 16]
        for command in [["plan", loads], ["doctor"], small_run]:
            result = call(*command, "--json", "-")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(json.loads(result.stdout)["schema"].startswith("megaflux."))
            self.assertEqual(result.stderr, "")

    def test_messages_go_to_standard_error(self):
        result = call("plan", self.loads("9,9,9,9"), "--ranks", 2, "--inactive", 0, "--json", "-")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(json.loads(result.stdout)["orphans"], [0, 1])
        self.assertIn("megaflux: error: no legal plan", result.stderr)

    def test_only_one_result_fits_standard_output(self):
        self.rejected("plan", self.loads(), "--json", "-", "--plan-out", "-", words=["--plan-out"])


class StreamsThatTakeNothing(ProgramTest):
    def status(self, redirection, *arguments):
        shell = ["bash", "-c", f'"$@" {redirection}', "bash", PROGRAM, *map(str, arguments)]
        return subprocess.run(shell, capture_output=True, text=True, env=environment())

    def test_lost_report_is_an_error(self):
        for redirection in ["> /dev/full", ">&-"]:
            for command in [["plan", self.loads()], ["plan", self.loads(), "--ranks", 200],
                            ["doctor"], ["--help"], ["--version"]]:
                result = self.status(redirection, *command)
                self.assertEqual(result.returncode, 2, command)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn("standard output", result.stderr)

    def test_lost_message_changes_no_status(self):
        for redirection in ["2> /dev/full", "2>&-"]:
            self.assertEqual(self.status(redirection, "plan", "nowhere.csv").returncode, 2)


class Colour(ProgramTest):
    def test_terminal_has_it(self):
        status, shown = call_on_terminal("plan", self.loads(), "--ranks", 4)
        self.assertEqual(status, 0)
        self.assertIn(ESCAPE, shown)

    def test_no_color_and_dumb_terminals_do_not(self):
        for change in [{"NO_COLOR": "1"}, {"TERM": "dumb"}]:
            _, shown = call_on_terminal("plan", self.loads(), "--ranks", 4,
                                        env=environment(**change))
            self.assertNotIn(ESCAPE, shown, change)

    def test_empty_no_color_counts_as_unset(self):
        _, shown = call_on_terminal("plan", self.loads(), "--ranks", 4,
                                    env=environment(NO_COLOR=""))
        self.assertIn(ESCAPE, shown)

    def test_pipes_do_not(self):
        self.assertNotIn(ESCAPE, self.ok("plan", self.loads(), "--ranks", 4).stdout)


class Locale(ProgramTest):
    def test_utf8_has_blocks(self):
        self.assertIn("█", self.ok("plan", self.loads(), "--ranks", 4).stdout)

    def test_others_are_plain_ascii(self):
        for change in [{"LANG": "C"}, {"LANG": None}, {"LC_ALL": "POSIX"}]:
            for command in [["plan", self.loads(), "--ranks", 4], ["doctor"],
                            ["run", "--tokens", 128, "--hidden", 16, "--inter", 16]]:
                text = self.ok(*command, env=environment(**change)).stdout
                self.assertTrue(text.isascii(), text)
        self.assertIn("####", self.ok("plan", self.loads(), "--ranks", 4,
                                      env=environment(LANG="C")).stdout)


class ProgressBar(ProgramTest):
    LONG = ["run", "--tokens", 2048, "--json", "-"]

    def test_is_shown_on_a_terminal_and_wiped(self):
        _, shown = call_on_terminal(*self.LONG)
        self.assertRegex(shown, r"\d/6 ")
        self.assertIn("\r" + ESCAPE + "K", shown)

    def test_is_absent_from_pipes(self):
        self.assertEqual(call(*self.LONG).stderr, "")


class TextFromOutside(ProgramTest):
    """What a trace says of itself, and the names of files, are shown and not obeyed."""

    def test_no_control_character_gets_through(self):
        counts = self.write("counts\x1b[31m.csv", "900,700,120,100,90,80,60,50\n")
        trace = self.folder / "loads\x1b]0;title\x07.npz"
        made = self.ok("import", counts, "-o", trace, "--model-name", "m\x1b[2J\u009b31m\x7f")
        report = self.folder / "report\x1b[31m.html"
        shown = [made.stdout] + [self.ok(*command).stdout for command in (
            ["plan", trace], ["explain", trace], ["simulate", trace, "--planners", "fixed"],
            ["report", trace, "-o", report, "--what-if-planners", "fixed"],
            ["export", trace, "-o", self.folder / "out\x1b[31m"],
            ["bench", "plan", trace, "--repeats", 1])]
        for text in shown:
            self.assertIn("\\x1b", text)
            control = [c for c in text if c != "\n" and (ord(c) < 0x20 or 0x7f <= ord(c) < 0xa0)]
            self.assertEqual(control, [], text)
        self.assertIn(r"m\x1b[2J\x9b31m\x7f", shown[3])
