"""Nodes with a name, which the processes of a user share: who has the node, and who has it next."""

import os
import subprocess
import sys
import tempfile
import unittest

import client_case  # noqa: F401  (it names the package)

HERE = f"""
import sys; sys.path[:0] = {sys.path[:3]!r}
import os, signal
import farpage
from client_case import content, key
LENGTH = 4096

def open_it():
    return farpage.open(embedded={{"name": "shared", "pool_bytes": "4MiB", "page_bytes": LENGTH}}, connect_ms=20_000)

def put(client, number):
    assert client.put(key(number), content(number, LENGTH), timeout_s=30).wait()["code"][0] == 0

def is_there(client, number):
    into = bytearray(LENGTH)
    return client.fetch(key(number), into, timeout_s=30).wait()["verdict"][0] == 1 and into == content(number, LENGTH)

def fork_one_that_lives():
    child = os.fork()
    if child == 0:
        signal.pause()
    return child

def say(word):
    print(word, flush=True)
"""


class NamedNodeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": folder.name}

    def start(self, text):
        """A process that says words, a line each, and ends with its standard input."""
        process = subprocess.Popen([sys.executable, "-B", "-W", "error", "-c", HERE + text], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env=self.environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.kill)
        return process

    def hear(self, process, word):
        self.assertEqual(process.stdout.readline().strip(), word)

    def test_two_processes_share_it(self):
        first = self.start("client = open_it(); put(client, 1); say('put'); sys.stdin.read(); client.close()")
        self.hear(first, "put")
        second = self.start("client = open_it(); assert is_there(client, 1); put(client, 2); say('both'); sys.stdin.read(); client.close()")
        self.hear(second, "both")
        third = self.start("client = open_it(); assert is_there(client, 1) and is_there(client, 2); say('all'); client.close()")
        self.hear(third, "all")

    def test_the_next_process_has_an_empty_one(self):
        first = self.start("client = open_it(); put(client, 1); say('put'); sys.stdin.read()")
        self.hear(first, "put")
        first.kill()
        first.wait()
        second = self.start("client = open_it(); say(is_there(client, 1)); put(client, 2); say('put'); client.close()")
        self.hear(second, "False")
        self.hear(second, "put")

    def test_a_process_opens_it_again_beside_the_child_of_a_fork(self):
        process = self.start("""
open_it().close()
client = open_it()
child = fork_one_that_lives()
client.close()
with open_it() as again:
    put(again, 1)
    said = is_there(again, 1)
os.kill(child, signal.SIGKILL)
say(said)
""")
        self.hear(process, "True")

    def test_a_killed_process_leaves_it_though_its_child_lives(self):
        first = self.start("client = open_it(); put(client, 1); say(fork_one_that_lives()); sys.stdin.read()")
        child = int(first.stdout.readline())
        self.addCleanup(os.kill, child, 9)
        first.kill()
        first.wait()
        second = self.start("client = open_it(); put(client, 2); say(is_there(client, 2)); client.close()")
        self.hear(second, "True")
        os.kill(child, 0)  # it does live


if __name__ == "__main__":
    unittest.main()
