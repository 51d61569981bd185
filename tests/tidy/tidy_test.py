"""Every rule is shown a small tree that breaks it, so that it is known to be able to fail."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True

from include_rules import ROOMS
from sources import Tree
from tidy import RULES


class RuleTest(unittest.TestCase):
    def findings(self, rule, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            return list(RULES[rule](Tree(root)))

    def assert_breaks(self, rule, files, *starts):
        findings = self.findings(rule, files)
        self.assertEqual(len(findings), len(starts), findings)
        for finding, start in zip(findings, starts):
            self.assertTrue(finding.startswith(start), finding)

    def assert_keeps(self, rule, files):
        self.assertEqual(self.findings(rule, files), [])


class LayersTest(RuleTest):
    def test_an_upward_include(self):
        files = {"base/a.h": '#include "tier/b.h"\n', "tier/b.h": "\n"}
        self.assert_breaks("layers", files, "base/a.h:1: base may not include tier")

    def test_a_backend_is_chosen_by_a_composition_root_alone(self):
        backend = {"transport/shm/fabric.h": '#include "transport/fabric.h"\n', "transport/fabric.h": ""}
        include = '#include "transport/shm/fabric.h"\n'
        for folder in ("cli", "cli/lab", "tests/transport"):
            self.assert_keeps("layers", {**backend, f"{folder}/a.cc": include})
        for folder in ("transport", "tier", "node", "transport/tcp", "sim", "pagetable", "bench"):
            self.assert_breaks("layers", {**backend, f"{folder}/a.cc": include}, f"{folder}/a.cc:1: ")

    def test_the_laboratory_is_not_in_the_product(self):
        rooms = {"sim/a.h": "", "chaos/a.h": "", "lab/a.h": "", "sim/fault/a.h": ""}
        for header in rooms:
            include = f'#include "{header}"\n'
            self.assert_keeps("layers", {**rooms, "cli/lab/a.cc": include})
            for path in ("cli/a.cc", "cli/farpage/a.cc", "cli/node/a.cc", "bench/a.cc", "node/a.cc", "report/a.cc"):
                self.assert_breaks("layers", {**rooms, path: include}, f"{path}:1: ")

    def test_nothing_includes_the_command_line(self):
        files = {"bench/a.cc": '#include "cli/b.h"\n', "cli/b.h": ""}
        self.assert_breaks("layers", files, "bench/a.cc:1: bench may not include cli")

    def test_the_tier_does_not_know_the_node_that_uses_it(self):
        files = {
            "tier/a.h": '#include "node/b.h"\n', "node/a.h": '#include "tier/b.h"\n',
            "tier/b.h": "", "node/b.h": "",
        }
        self.assert_breaks("layers", files, "tier/a.h:1: ")

    def test_the_public_header_stands_alone(self):
        files = {"include/farpage/a.h": "", "client/c/a.cc": "#include <farpage/a.h>\n"}
        self.assert_keeps("layers", files)
        self.assert_breaks("layers", {**files, "tier/a.cc": "#include <farpage/a.h>\n"}, "tier/a.cc:1: tier may not")
        self.assert_breaks("layers", {**files, "client/a.cc": "#include <farpage/b.h>\n"}, "client/a.cc:1: ")
        files["include/farpage/a.h"] = '#include "base/a.h"\n'
        self.assert_breaks("layers", {**files, "base/a.h": ""}, "include/farpage/a.h:1: include may not")

    def test_a_folder_without_a_layer(self):
        self.assert_breaks("layers", {"misc/a.cc": ""}, "misc/a.cc:1: the folder 'misc'")

    def test_an_include_that_is_no_path_from_the_root(self):
        files = {"base/a.cc": '\n#include "b.h"\n', "base/b.h": ""}
        self.assert_breaks("layers", files, 'base/a.cc:2: "b.h" is no path')

    def test_a_generated_header_counts_as_its_proto(self):
        files = {"control/m.proto": "", "control/a.cc": '#include "control/m.pb.h"\n'}
        self.assert_keeps("layers", files)
        files["base/a.cc"] = '#include "control/m.pb.h"\n'
        self.assert_breaks("layers", files, "base/a.cc:1: base may not include control")

    def test_what_is_allowed(self):
        files = {
            "base/a.h": "#include <vector>\n", "integrity/a.h": '#include "base/a.h"\n',
            "tier/a.h": '#include "integrity/a.h"\n', "cli/a.cc": '#include "tier/a.h"\n',
        }
        self.assert_keeps("layers", files)


class OrderTest(RuleTest):
    def test_the_build_has_the_same_order(self):
        lists = [f"add_subdirectory({room})\n" for room in ROOMS]
        self.assert_keeps("order", {"CMakeLists.txt": "".join(lists)})
        self.assert_breaks("order", {"CMakeLists.txt": "".join([*lists[1:], lists[0]])}, "CMakeLists.txt:1: ")
        self.assert_breaks("order", {"CMakeLists.txt": "".join(lists[1:])}, "CMakeLists.txt:1: ")

    def test_a_room_that_may_include_what_stands_below_it(self):
        with unittest.mock.patch.dict(ROOMS, {"tier": ["node"]}):
            self.assert_breaks("order", {}, "tests/tidy/include_rules.py:1: tier may include node")


class CirclesTest(RuleTest):
    def test_folders_that_include_each_other(self):
        files = {"tier/a.h": '#include "tier/b/c.h"\n', "tier/b/c.h": '#include "tier/d.h"\n', "tier/d.h": ""}
        self.assert_breaks("circles", files, "tier/a.h:1: ", "tier/b/c.h:1: ")

    def test_over_others(self):
        files = {"a/a.h": '#include "b/b.h"\n', "b/b.h": '#include "c/c.h"\n', "c/c.cc": '#include "a/a.h"\n', "c/c.h": ""}
        self.assert_breaks("circles", files, "a/a.h:1: ", "b/b.h:1: ", "c/c.cc:1: ")
        self.assert_keeps("circles", {**files, "c/c.cc": '#include "c/c.h"\n'})

    def test_tests_may(self):
        self.assert_keeps("circles", {"tests/a/a.h": '#include "tests/b/b.h"\n', "tests/b/b.h": '#include "tests/a/a.h"\n'})


class VendorTest(RuleTest):
    def test_only_in_their_backend(self):
        include = "#include <infiniband/verbs.h>\n"
        self.assert_keeps("vendor", {"transport/verbs/a.cc": include})
        self.assert_breaks("vendor", {"transport/a.cc": include}, "transport/a.cc:1: ")
        self.assert_breaks("vendor", {"tests/transport/a.cc": "#include <ucp/api/ucp.h>\n"}, "tests/")
        self.assert_breaks("vendor", {"integrity/a.cc": "#include <cuda_runtime.h>\n"}, "integrity/a.cc:1: ")

    def test_prometheus_in_the_sources_of_metrics_alone(self):
        include = "#include <prometheus/registry.h>\n"
        self.assert_keeps("vendor", {"metrics/a.cc": include})
        for path in ("metrics/a.h", "node/a.cc", "cli/a.cc", "tests/metrics/a.cc"):
            self.assert_breaks("vendor", {path: include}, f"{path}:1: ")


class OwnHeaderTest(RuleTest):
    def test_it_comes_first(self):
        self.assert_keeps("own_header", {"base/a.h": "", "base/a.cc": '// a\n#include "base/a.h"\n#include <map>\n'})
        for text, line in (('#include <map>\n#include "base/a.h"\n', 1), ('\n#include "base/b.h"\n', 2), ("int a;\n", 1)):
            self.assert_breaks("own_header", {"base/a.h": "", "base/a.cc": text}, f"base/a.cc:{line}: base/a.h is not")

    def test_a_source_without_one(self):
        self.assert_keeps("own_header", {"base/a.cc": "#include <map>\n", "net/a.h": ""})


class OnceTest(RuleTest):
    def test_every_header_says_so(self):
        self.assert_keeps("once", {"base/a.h": "// What it is.\n#pragma once\n\nint a();\n", "base/a.cc": ""})
        for text in ("", "int a();\n", "// #pragma once\nint a();\n", "#include <map>\n#pragma once\n"):
            self.assert_breaks("once", {"base/a.h": text}, "base/a.h:1: ")


class ExpensiveTest(RuleTest):
    def test_a_header_that_leaves_its_folder(self):
        files = {
            "control/a.h": "#include <boost/asio/io_context.hpp>\n",
            "control/b.h": '#include "control/a.h"\n',
            "node/c.cc": '#include "control/b.h"\n',
        }
        self.assert_breaks("expensive", files, "control/a.h:1: boost/asio/io_context.hpp reaches")

    def test_a_header_of_one_folder(self):
        files = {"cli/a.h": "#include <CLI/CLI.hpp>\n", "cli/a.cc": '#include "cli/a.h"\n'}
        self.assert_keeps("expensive", files)

    def test_too_many_sources(self):
        files = {"cli/a.h": "#include <CLI/CLI.hpp>\n", "base/a.cc": "#include <toml++/toml.h>\n"}
        files.update({f"cli/{i}.cc": '#include "cli/a.h"\n' for i in range(6)})
        self.assert_keeps("expensive", files)
        self.assert_breaks("expensive", {**files, "cli/9.cc": '#include "cli/a.h"\n'}, "8 sources see ")

    def test_each_subcommand_is_one_source_more(self):
        files = {"cli/a.h": "#include <CLI/CLI.hpp>\n"}
        files.update({f"cli/{'lab' if i % 2 else 'farpage'}/{i}_command.cc": '#include "cli/a.h"\n' for i in range(20)})
        self.assert_keeps("expensive", files)
        others = {f"{folder}/{i}_command.cc": "#include <CLI/CLI.hpp>\n" for i, folder in enumerate(["base", "net", "node", "tier", "bench", "etcd", "lab", "sim"])}
        self.assert_breaks("expensive", others, "8 sources see ")


class BackendNamesTest(RuleTest):
    def test_a_comparison_outside_of_the_registrations(self):
        for line in ('if (backend == "tcp") {', 'if ("ucx" == name) return;', 'const bool is_far = name != "shm";',
                     "if (backend == &kUcxBackend) {", "set.has(kVerbsCheck);", "#ifdef FARPAGE_HAS_VERBS"):
            for path in ("cli/node/node_front.cc", "node/a.cc", "bench/a.h", "doctor/limits.cc", "backends/options.cc"):
                self.assert_breaks("backend_names", {path: f"\n{line}\n"}, f"{path}:2: ")

    def test_another_backend_s_registration(self):
        for path in ("backends/shm.cc", "doctor/backends/backend_shm.cc"):
            self.assert_keeps("backend_names", {path: 'const char* name = "shm";\n'})
            self.assert_breaks("backend_names", {path: 'if (name == "tcp") {\n'}, f"{path}:1: ")

    def test_the_tables_name_objects_and_compare_no_names(self):
        for path in ("backends/backends.cc", "doctor/backends/every_check.cc"):
            self.assert_keeps("backend_names", {path: "{&kShmBackend, &kTcpCheck}\n"})
            self.assert_breaks("backend_names", {path: 'name == "tcp"\n'}, f"{path}:1: ")

    def test_backends_and_tests_may(self):
        for path in ("transport/tcp/a.cc", "tests/cli/a.cc"):
            self.assert_keeps("backend_names", {path: 'x.backend = "tcp";\n'})

    def test_comments_and_longer_strings_are_free(self):
        text = '// "shm", "tcp"\nauto a = "tcp://";  // not "tcp"\nauto b = "not over tcp";\n'
        self.assert_keeps("backend_names", {"cli/a.cc": text})


class BuiltTest(RuleTest):
    LISTS = {"CMakeLists.txt": "add_subdirectory(base)\n", "base/CMakeLists.txt": "farpage_target(base SOURCES a.cc)\n"}

    def test_a_source_that_nobody_names(self):
        self.assert_keeps("built", {**self.LISTS, "base/a.cc": ""})
        self.assert_breaks("built", {**self.LISTS, "base/a.cc": "", "base/ba.cc": ""}, "base/ba.cc:1: ")

    def test_a_name_in_a_comment_does_not_count(self):
        lists = {**self.LISTS, "base/CMakeLists.txt": "# a.cc\n"}
        self.assert_breaks("built", {**lists, "base/a.cc": ""}, "base/a.cc:1: ")

    def test_a_folder_that_nobody_adds(self):
        files = {**self.LISTS, "tests/CMakeLists.txt": "", "base/a.cc": ""}
        self.assert_breaks("built", files, "tests/CMakeLists.txt:1: ")


class BannedTest(RuleTest):
    def test_calls(self):
        for call in (
            'std::system("ls");', "::system(a);", "strcpy(a, b);", "sprintf(a, b);", "int a = rand();",
            "srand(1);", "std::regex a;", "#define private public",
        ):
            self.assert_breaks("banned", {"cli/a.cc": f"\n{call}\n"}, "cli/a.cc:2: ")

    def test_waiting_for_a_while(self):
        for call in ("std::this_thread::sleep_for(x);", "usleep(5);", "::sleep(1);", "sleep(1);",
                     "EXPECT_EXIT(f(), KilledBySignal(9), x);"):
            self.assert_breaks("banned", {"tests/base/a.cc": call}, "tests/base/a.cc:1: ")
            self.assert_keeps("banned", {"bench/a.cc": call})

    def test_standard_output(self):
        for call in ('printf("a");', 'std::printf("a");', "std::cout << 1;", "puts(a);",
                     'std::fprintf(stdout, "a");', 'fmt::print("a");'):
            self.assert_breaks("banned", {"tier/a.cc": call}, "tier/a.cc:1: ")
            self.assert_keeps("banned", {"cli/a.cc": call})
        self.assert_keeps("banned", {"tier/a.cc": 'std::fprintf(stderr, "a");\nfmt::print(stderr, "");\n'})

    def test_wall_clocks(self):
        for call in ("std::chrono::system_clock::now();", "using Clock = std::chrono::high_resolution_clock;",
                     "clock_gettime(CLOCK_REALTIME, &now);", "clock_gettime(CLOCK_REALTIME_COARSE, &now);",
                     "gettimeofday(&now, nullptr);", "std::timespec_get(&now, TIME_UTC);", "const auto now = time(nullptr);",
                     "std::time(nullptr);", "return ::time(0);"):
            for folder in ("base", "tier", "node", "pagetable", "integrity", "transport/tcp"):
                self.assert_breaks("banned", {f"{folder}/a.cc": call}, f"{folder}/a.cc:1: ")
            self.assert_keeps("banned", {"bench/a.cc": call})
        self.assert_keeps("banned", {"base/clock.cc": "clock_gettime(CLOCK_REALTIME, &now);"})
        self.assert_breaks("banned", {"base/clock.cc": 'printf("a");'}, "base/clock.cc:1: ")
        text = "clock_gettime(CLOCK_BOOTTIME, &now);\nstd::chrono::steady_clock::now();\na.time(1); run_time(2); b->time(3);\n"
        self.assert_keeps("banned", {"tier/a.cc": text})

    def test_comments_strings_and_longer_names_are_free(self):
        text = '// system(a)\n/* rand(\n) */\nauto a = "strcpy(a)";\noperand(1); file_system(2); a.system(3);\n'
        self.assert_keeps("banned", {"base/a.cc": text})

    def test_lines_are_counted_over_long_comments(self):
        self.assert_breaks("banned", {"base/a.cc": "/*\n\n*/\nrand();\n"}, "base/a.cc:4: ")


class SuppressionsTest(RuleTest):
    def test_words(self):
        for text in ("int a;  // NOLINT", "__attribute__((no_sanitize_address))",
                     "const char* __tsan_default_suppressions();", "TSAN_OPTIONS=suppressions=a"):
            self.assert_breaks("suppressions", {"scripts/a": text}, "scripts/a:1: ")

    def test_files(self):
        self.assert_breaks("suppressions", {"tests/tsan.supp": "race:a\n"}, "tests/tsan.supp:1: ")
        self.assert_keeps("suppressions", {"base/a.cc": "int suppressions;\n"})


class AbsolutePathsTest(RuleTest):
    def test_paths_of_one_machine(self):
        for text in ("cd /home/me/main", "HOME=/root/.cache", '"/home/a"', "-I/home/a"):
            self.assert_breaks("absolute_paths", {"scripts/a": text}, "scripts/a:1: ")
        self.assert_keeps("absolute_paths", {"a.md": "docs/home/plan ../home/x $HOME/home/x https://a.b/root/c\n"})


class LinksTest(RuleTest):
    def test_links(self):
        files = {"docs/a.md": "[b](b.md#part) ![c](../c.svg)\n", "docs/b.md": "[x](https://x.org/y) [y](#z)\n", "c.svg": ""}
        self.assert_keeps("links", files)
        self.assert_breaks("links", {"a.md": "\n[b](b.md)\n[c]: d/e.md\n"}, "a.md:2: ", "a.md:3: ")

    def test_a_link_out_of_the_project(self):
        self.assert_breaks("links", {"a.md": "[up](../..)\n"}, "a.md:1: ")

    def test_code_is_free(self):
        self.assert_keeps("links", {"a.md": "```\n[b](b.md)\n```\n`[b](b.md)`\n"})


class CitedRulesTest(RuleTest):
    def test_a_rule_that_is_cited_is_one(self):
        rules = {"docs/formats/rules.md": "1. **Live word.** …\n2. **Copies.** …\n"}
        self.assert_keeps("cited_rules", {**rules, "base/a.h": "// Protocol rules 1 and 2.\n"})
        self.assert_breaks("cited_rules", {**rules, "base/a.h": "// Protocol rules 1 and 3.\n"}, "base/a.h:1: there is no rule 3")
        self.assert_breaks("cited_rules", {"base/a.h": "// Rule 1.\n"}, "base/a.h:1: ")

    def test_lists_and_citations_that_wrap(self):
        rules = {"docs/formats/rules.md": "1. **Live word.** …\n2. **Copies.** …\n"}
        for text, line in (("// Rules 1, 2 and 3.\n", 1), ("// Rules 1, 3 and 2.\n", 1), ("// Rules 1, 2, or 3.\n", 1), ("// Rules 1 to 3.\n", 1),
                           ("// (rules 1,\n  // 2 and 3)\n", 2), ("// (rules 1 and\n// 3)\n", 2), ("// (rules 1\n// and 3)\n", 2), ("// (protocol rule\n// 3)\n", 2)):
            with self.subTest(text):
                self.assert_breaks("cited_rules", {**rules, "base/a.h": text}, f"base/a.h:{line}: there is no rule 3")
        for text in ("// Rules 1, 2. 3 pages\n", "// rule 1), 3\n"):
            with self.subTest(text):
                self.assert_keeps("cited_rules", {**rules, "base/a.h": text})


class CitedTestsTest(RuleTest):
    def test_a_test_that_is_cited_is_there(self):
        tests = {"tests/a/b_test.py": "class BTest:\n    def test_one(self):\n        two()\n", "tests/c_test.cc": "TEST(C, Three) {\n"}
        self.assert_keeps("cited_tests", {**tests, "docs/a.md": "`b_test.py::test_one`, `a/b_test.py::test_one`, `c_test.cc::Three`\n"})
        for cited in ("b_test.py::test_two", "b_test.py::test_on", "b_test.py::two", "c_test.py::test_one", "x_test.py::test_one", "c_test.cc::Four"):
            with self.subTest(cited):
                self.assert_breaks("cited_tests", {**tests, "docs/a.md": f"\n`{cited}`\n"}, "docs/a.md:2: there is no test")


class NeedsRootTest(RuleTest):
    def test_one_helper_in_each_language(self):
        helpers = {"tests/support/needs_root.h": 'geteuid() == 0 ? nullptr : "needs root: a";\n',
                   "tests/cli/support/program.py": 'if os.geteuid() != 0:\n    skip(case, "needs root: a")\n'}
        self.assert_keeps("needs_root", {**helpers, "base/a.cc": "geteuid() != 0\n", "tests/a.cc": "geteuid() == owner\n"})
        self.assert_breaks("needs_root", {**helpers, "tests/a_test.py": "os.geteuid() == 0\n"}, "tests/a_test.py:1: ")
        self.assert_breaks("needs_root", {**helpers, "tests/support/needs_root.h": '"needs root: b"\n'}, "tests/support/needs_root.h:1: says")


class TablesTest(RuleTest):
    def test_a_script_names_the_documents_of_its_tables(self):
        document = {"docs/a.md": "\n    lab/make.py --tables x\n"}
        self.assert_keeps("tables", {**document, "lab/make.py": "As in docs/a.md.\n"})
        self.assert_breaks("tables", {**document, "lab/make.py": "As in docs/b.md.\n"}, "docs/a.md:2: lab/make.py")


class LengthTest(RuleTest):
    def test_five_hundred_lines(self):
        self.assert_keeps("length", {"base/a.cc": "\n" * 500, "trace.jsonl": "\n" * 600})
        for path in ("base/a.cc", "scripts/run", "README.md", "tests/CMakeLists.txt"):
            self.assert_breaks("length", {path: "\n" * 501}, f"{path}:501: 501 lines")


class CrowdedTest(RuleTest):
    def test_twenty_five_files(self):
        files = {f"base/{i}.h": "" for i in range(25)}
        self.assert_keeps("crowded", {**files, "base/more/a.h": ""})
        self.assert_breaks("crowded", {**files, "base/a.h": ""}, "base: 26 files")
        self.assert_keeps("crowded", {f"docs/decisions/{i}.md": "" for i in range(40)})


class ColumnsTest(RuleTest):
    LONG = "word " * 20 + "word"

    def test_comments_in_every_language(self):
        self.assertEqual(len(self.LONG), 104)
        for path, text in (
            ("base/a.h", f"int a;\n// {self.LONG}\n"), ("base/a.h", f"/* a\n   {self.LONG} */\n"),
            ("tests/model/a.pml", f"int a;\n/* {self.LONG} */\n"), ("tests/model/a.pml", f"/* a\n   {self.LONG}\n   b */\n"),
            ("base/CMakeLists.txt", f"\n# {self.LONG}\n"), ("cmake/A.cmake", f"\nset(a)  # {self.LONG}\n"),
            ("configs/a.toml", f"\na = 'b'  # {self.LONG}\n"), ("scripts/a", f"#!/bin/sh\n# {self.LONG}\n"),
            ("a.py", f"a = 1\n# {self.LONG}\n"), ("scripts/b", f"#!/usr/bin/env python3\nb = 1  # {self.LONG}\n"),
            ("a.md", f"# A\n{self.LONG}\n"),
        ):
            with self.subTest(path=path, text=text):
                self.assert_breaks("columns", {path: text}, f"{path}:2: a comment or prose of ")

    def test_docstrings(self):
        for text in (f'"""A.\n{self.LONG}"""\n', f'class A:\n    """{self.LONG}"""\n', f'def a():\n    """{self.LONG}"""\n'):
            self.assert_breaks("columns", {"a.py": text}, "a.py:2: ")

    def test_a_hundred_columns(self):
        self.assert_keeps("columns", {"a.py": "# " + "a" * 98 + "\n", "a.md": "ä" * 100 + "\n"})
        self.assert_breaks("columns", {"a.py": "# " + "a" * 99 + "\n"}, "a.py:1: ")

    def test_code_tables_and_addresses_are_free(self):
        for path, text in (
            ("a.py", f'a = "# {self.LONG}"\nb = """\n# {self.LONG}\n"""\n'), ("base/a.cc", f'auto a = "// {self.LONG}";\n'),
            ("tests/model/a.pml", f'printf("/* {self.LONG} */")\n'), ("configs/a.toml", f'a = "# {self.LONG}"\n'),
            ("scripts/a", f"#!/bin/sh\necho '# {self.LONG}' ${{#a}} $#\n"), ("a.md", f"| {self.LONG} |\n```\n{self.LONG}\n```\n"),
            ("b.py", f"# https://a.b/{'c' * 100}\n"), ("requests.txt", f"# {self.LONG}\n"),
        ):
            with self.subTest(path=path, text=text):
                self.assert_keeps("columns", {path: text})


class ProgramTest(RuleTest):
    def run_tidy(self, *arguments):
        program = pathlib.Path(__file__).with_name("tidy.py")
        return subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True)

    def test_exit_codes(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_tidy("--root", folder).returncode, 0)
            (pathlib.Path(folder) / "a.md").write_text("[b](b.md)\n")
            broken = self.run_tidy("links", "--root", folder)
            self.assertEqual(broken.returncode, 1)
            self.assertIn("a.md:1: ", broken.stdout)
            self.assertEqual(self.run_tidy("length", "--root", folder).returncode, 0)
        unknown = self.run_tidy("weather")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("unknown rule weather", unknown.stderr)


if __name__ == "__main__":
    unittest.main()
