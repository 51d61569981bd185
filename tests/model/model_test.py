"""spin searches the models with every guard, and without each: model_test.py Searches|Guards"""

import os
import re
import unittest

import spin
from configurations import CONFIGURATIONS, GUARDS, NOTHING

REACHED = re.compile(r"\breached\((\w+), ")


def marks():
    """The code must meet each rule of the models somewhere."""
    found = set()
    for path in spin.FOLDER.rglob("*.pml"):
        found |= {name for name in REACHED.findall(path.read_text()) if name != "name"}
    return found


class Case(unittest.TestCase):
    def setUp(self):
        missing = spin.missing_tools()
        if missing:
            why = f"{' and '.join(missing)} missing here: install the Debian packages of that name"
            print(f"skipped: {why}", flush=True)
            self.fail(why) if os.environ.get("CI") else self.skipTest(why)


class Searches(Case):
    def test_nothing_is_violated_and_everything_is_met(self):
        met = set()
        for configuration in (each for each in CONFIGURATIONS if each.in_ci):
            with self.subTest(configuration.name):
                result = spin.search(configuration.model, ("coverage", *configuration.defines))
                print(f"{configuration.name:32} {result.states:>12,} states {result.seconds:6.1f} s {result.memory_mib:6.0f} MiB", flush=True)
                self.assertEqual(result.counterexample, ())
                met |= result.reached
        self.assertEqual(sorted(marks() - met), [], "no search met these: what stands behind them was not searched")
        self.assertGreater(len(met), 20)


class Guards(Case):
    def test_each_switched_off_is_found(self):
        for guard in GUARDS:
            with self.subTest(guard.name, breaks=guard.breaks):
                result = spin.search(guard.model, guard.switched_off, shortest=guard.breaks != NOTHING)
                actions = len(result.counterexample)
                print(f"\nwithout {guard.name}: {guard.breaks} breaks, "
                      f"{max(actions - 1, 0)} actions, {result.states:,} states, {result.seconds:.1f} s", flush=True)
                print("".join(f"  {line}\n" for line in result.counterexample), end="", flush=True)
                self.assertEqual(actions > 0, guard.breaks != NOTHING)

    def test_each_switch_is_in_the_list(self):
        switches = set()
        for path in spin.FOLDER.rglob("*.pml"):
            switches |= set(re.findall(r"\bno_(\w+)", path.read_text()))
        self.assertEqual(switches, {name for guard in GUARDS for name in guard.name.split("+")})


if __name__ == "__main__":
    unittest.main()
