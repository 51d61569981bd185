"""scripts/test, with stand-ins for its tools: it runs a failed test again and names a flaky one."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "test"
FAILED = "build/dev/Testing/Temporary/LastTestsFailed.log"
# It fails as often as the file says, and then passes.
CTEST = f"""#!/bin/sh
echo "ctest $*" >> calls
case "$*" in
  *--show-only*) cat virtual; exit 0 ;;
esac
left=$(cat failures)
[ "$left" -gt 0 ] || exit 0
echo $((left - 1)) > failures
mkdir -p $(dirname {FAILED})
printf '3:A.b\\n17:C/D.e/0\\n' > {FAILED}
exit 8
"""


class TestTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fp"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "scripts").mkdir()
        shutil.copy(SCRIPT, self.folder / "scripts/test")
        self.write("scripts/setup", "#!/bin/sh\n")
        self.write("scripts/check-skips", '#!/bin/sh\necho "check-skips $*" >> calls\n')
        self.write("bin/cmake", '#!/bin/sh\necho "cmake $*" >> calls\n')
        self.write("bin/ctest", CTEST)

    def write(self, path, text):
        file = self.folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def run_tests(self, failures, preset="dev", in_virtual_time="  Test   #4: A.bc"):
        (self.folder / "failures").write_text(str(failures))
        (self.folder / "virtual").write_text(f"Test project\n{in_virtual_time}\n\nTotal Tests: 1\n")
        # A run of these tests with a sanitizer has options of its own.
        own = {name: value for name, value in os.environ.items() if not name.endswith("SAN_OPTIONS")}
        environment = {**own, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "CI": "true"}
        return subprocess.run([self.folder / "scripts/test", "--preset", preset], env=environment, capture_output=True, text=True, check=False)

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def test_that_all_pass(self):
        result = self.run_tests(failures=0)
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertEqual(self.calls(), ["cmake --preset dev", "cmake --build --preset dev", "ctest --preset dev",
                                        "check-skips build/dev/junit.xml"])

    def test_one_that_passes_the_second_time_is_named(self):
        result = self.run_tests(failures=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.splitlines()[-1],
                         "flaky (dev): A.b C/D.e/0 failed at first, and passed alone: mend them")
        self.assertIn("ctest --preset dev --rerun-failed --parallel 1 --output-junit junit-again.xml", self.calls())
        self.assertIn("check-skips build/dev/junit-again.xml", self.calls())

    def test_one_in_virtual_time_has_no_second_chance(self):
        self.assertEqual(self.run_tests(failures=1, in_virtual_time="  Test  #17: C/D.e/0").returncode, 8)
        self.assertNotIn("junit-again", "".join(self.calls()))

    def test_what_a_sanitizer_finds_fails_all(self):
        for preset, variable in (("tsan", "TSAN_OPTIONS"), ("asan", "ASAN_OPTIONS"), ("asan", "UBSAN_OPTIONS")):
            finding = f'path=${{{variable}#*log_path=\\"}}; echo "data race" > "${{path%%\\"*}}.farpage.42"'
            ctest = CTEST.replace("build/dev", f"build/{preset}")
            for failures, when in ((0, "*"), (1, "*"), (1, "*--rerun-failed*")):
                look = f'case "$*" in {when}) {finding} ;; esac'
                self.write("bin/ctest", ctest.replace("left=", f"{look}\nleft=", 1))
                result = self.run_tests(failures, preset)
                self.assertEqual(result.returncode, 1, (preset, variable, when))
                self.assertIn("data race\n", result.stdout)
                self.assertIn("a sanitizer found this", result.stderr)
            self.write("bin/ctest", ctest)
            self.assertEqual(self.run_tests(0, preset).returncode, 0)

    def test_a_crash_and_a_test_without_an_end_have_no_second_chance(self):
        for how in ("Subprocess aborted***Exception:", "***Exception: SegFault", "***Timeout"):
            self.write("bin/ctest", CTEST.replace("exit 8", f'echo "1/2 Test #3: A.b ....{how}  1.00 sec"; exit 8'))
            self.assertEqual(self.run_tests(failures=1).returncode, 8)
        self.assertNotIn("--rerun-failed", "".join(self.calls()))

    def test_one_that_fails_by_chance_with_a_sanitizer_is_run_again(self):
        self.write("bin/ctest", CTEST.replace("build/dev", "build/tsan"))
        self.assertEqual(self.run_tests(failures=1, preset="tsan").returncode, 0)

    def test_a_run_that_died_is_not_judged_by_what_an_earlier_one_left(self):
        self.assertEqual(self.run_tests(failures=1).returncode, 0)
        self.assertTrue((self.folder / FAILED).exists())
        self.write("bin/ctest", "#!/bin/sh\nkill -9 $$\n")
        self.assertNotEqual(self.run_tests(failures=0).returncode, 0)
        self.write("bin/ctest", "#!/bin/sh\nexit 8\n")
        self.assertEqual(self.run_tests(failures=0).returncode, 8)

    def test_one_that_fails_twice_fails_all(self):
        result = self.run_tests(failures=2)
        self.assertEqual(result.returncode, 8)
        self.assertNotIn("flaky", result.stdout)

    def test_a_failure_of_no_test_is_one(self):
        self.write("bin/ctest", "#!/bin/sh\nexit 1\n")
        self.assertEqual(self.run_tests(failures=0).returncode, 1)


if __name__ == "__main__":
    unittest.main()
