"""However a process ends, or splits, with operations under way: in time, with its own exit code,
and without a crash."""

import signal
import unittest

from client_case import run_script
from program import Case

BEGIN = """
import os, pathlib, signal, sys, threading
import farpage, numpy
from client_case import content, key
client = farpage.open({node!r})
"""
UNDER_WAY = """
os.kill({pid}, signal.SIGSTOP)
threads = pathlib.Path("/proc/{pid}/task")
while not all(" T " in (each / "stat").read_text() for each in threads.iterdir()):
    os.sched_yield()
memory = numpy.zeros((32, 65536), numpy.uint8)
tickets = [client.put(key(n), memory[n], timeout_s={timeout_s}) for n in range(32)]
tickets += [client.fetch(key(n), bytearray(65536), timeout_s={timeout_s}) for n in range(32)]
"""
# As Ctrl-C would, once the main thread is in the library's wait.
INTERRUPT = UNDER_WAY + """
def interrupt(main=threading.get_ident()):
    while sys._current_frames()[main].f_code.co_name != "_wait":
        os.sched_yield()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
"""


class EndsTest(Case):
    def setUp(self):
        super().setUp()
        self.node = self.start_node()

    def script(self, text, timeout_s=60):
        return (BEGIN + text).format(node=str(self.node.socket), pid=self.node.pid, timeout_s=timeout_s)

    def run_to_its_end(self, text, timeout_s=60, code=0, errors=""):
        result = run_script(self.script(text, timeout_s))
        self.assertEqual((result.returncode, result.stderr), (code, errors), result)
        return result.stdout

    def test_exit_with_nothing_under_way(self):
        self.run_to_its_end("client.put(key(1), content(1), timeout_s=30).wait()")

    def test_exit_with_operations_that_end(self):
        self.run_to_its_end("""
for n in range(64):
    client.put(key(n), content(n), timeout_s=30)
sys.exit(7)""", code=7)

    def test_exit_with_operations_that_last(self):
        self.run_to_its_end(UNDER_WAY)

    def test_exit_with_operations_of_a_few_moments(self):
        self.run_to_its_end(UNDER_WAY, timeout_s=0.3)

    def test_exit_beside_daemon_threads_that_wait(self):
        self.run_to_its_end(UNDER_WAY + """
waiting = [threading.Thread(target=ticket.wait, daemon=True) for ticket in tickets]
for each in waiting: each.start()
""")

    def test_exit_beside_a_daemon_thread_that_submits(self):
        self.run_to_its_end("""
begun = threading.Event()
def submit():
    while True:
        client.fetch(key(1), bytearray(65536), timeout_s=30).wait()
        begun.set()
def refused():
    try:
        submit()
    except farpage.InvalidError:
        pass
threading.Thread(target=refused, daemon=True).start()
begun.wait()
""")

    def test_sys_exit_in_a_thread(self):
        self.run_to_its_end(UNDER_WAY + """
thread = threading.Thread(target=lambda: (client.fetch(key(1), bytearray(65536), timeout_s=0.2).wait(), sys.exit(3)))
thread.start()
thread.join()
""", timeout_s=0.3)

    def test_an_exception_that_nobody_catches(self):
        result = run_script(self.script(UNDER_WAY + "raise LookupError('its own')", 0.3))
        self.assertEqual(result.returncode, 1)
        self.assertTrue(result.stderr.endswith("LookupError: its own\n"), result.stderr)
        self.assertNotIn("farpage", result.stderr.replace("import farpage", ""))

    def test_ctrl_c_in_a_wait(self):
        self.assertEqual(self.run_to_its_end(INTERRUPT + """
try:
    tickets[0].wait()
except KeyboardInterrupt:
    print("interrupted", tickets[0].done)
"""), "interrupted False\n")

    def test_ctrl_c_in_a_flush(self):
        self.assertEqual(self.run_to_its_end(INTERRUPT + """
try:
    client.flush(timeout_s=None)
except KeyboardInterrupt:
    print("interrupted", tickets[0].done)
"""), "interrupted False\n")

    def test_ctrl_c_that_nobody_catches(self):
        result = run_script(self.script(INTERRUPT + "tickets[0].wait()"))
        self.assertEqual(result.returncode, -signal.SIGINT)
        self.assertIn("KeyboardInterrupt", result.stderr)

    def test_ctrl_c_at_exit_ends_it_and_keeps_what_may_be_written_to(self):
        self.assertEqual(self.run_to_its_end(UNDER_WAY + """
import farpage.client
def interrupted(timeout_s):
    raise KeyboardInterrupt
client._wait_for_operations = interrupted
references = sys.getrefcount(client)
try:
    farpage.client._end_all()
except KeyboardInterrupt:
    pass  # its traceback goes with it
print(sys.getrefcount(client) - references, farpage.client._IS_OVER)
"""), "1 True\n")

    def test_ctrl_c_in_close(self):
        output = self.run_to_its_end(INTERRUPT + """
try:
    client.close()
except KeyboardInterrupt:
    print("interrupted")
try:
    client.exists(key(1))
except farpage.InvalidError as error:
    print(error)
os.kill({pid}, signal.SIGCONT)
client.close()
print({{int(ticket.wait()["code"][0]) for ticket in tickets[:32]}})
""")
        self.assertRegex(output, r"^interrupted\nthe client is closed.*\n\{0\}\n$")

    def test_fork_after_open_is_refused_with_a_sentence(self):
        output = self.run_to_its_end("""
memory = bytearray(content(1))
region = client.register(memory)
ticket = client.put(key(1), memory, timeout_s=30)
child = os.fork()
if child == 0:
    said = []
    for call in (lambda: client.exists(key(1)), lambda: client.fetch(key(1), memory), lambda: client.register(bytearray(8)), lambda: client.page_bytes):
        try:
            call()
        except farpage.InvalidError as error:
            said.append(str(error))
    client.close()
    del ticket, region
    with farpage.open(embedded=True) as own:
        said.append(own.put(key(1), content(1), timeout_s=30).wait()["code"][0])
    print(said, flush=True)
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
ticket.wait()
into = bytearray(65536)
assert client.fetch(key(1), into, timeout_s=30).wait()["verdict"][0] == 1 and into == memory
""")
        self.assertEqual(output.count("before the fork"), 4, output)

    def test_a_ticket_of_before_the_fork_is_refused_at_once(self):
        """Also with all locks in the hands of a thread that the child lacks."""
        output = self.run_to_its_end("""
import asyncio
async def submit():
    ticket = client.exists([key(1)], timeout_s=30)
    await ticket
    return ticket
tickets = [client.put(key(1), content(1), timeout_s=30), client.remove(key(2), timeout_s=30), asyncio.run(submit())]
for ticket in tickets:
    ticket.wait()
region = client.register(bytearray(64))
taken, over = threading.Event(), threading.Event()
def hold():
    with client._answers, client._regions._lock:
        taken.set()
        over.wait()
thread = threading.Thread(target=hold)
thread.start()
taken.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    async def wait(ticket):
        return await ticket
    for ticket in tickets:
        for call in (lambda: ticket.done, lambda: ticket.released, ticket.result, ticket.why, ticket.wait, lambda: ticket.wait(0), ticket.wait_released,
                     lambda: asyncio.run(wait(ticket))):
            try:
                print("answered", call())
            except farpage.InvalidError as error:
                print("refused", "fork" in str(error))
    for call in (lambda: client.register(bytearray(8)), client.flush, client.statistics, lambda: client.announce([key(1)]), lambda: client.remove(key(1))):
        try:
            print("answered", call())
        except farpage.InvalidError as error:
            print("refused", "fork" in str(error))
    region.close()
    client.close()
    del tickets, ticket, region
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
over.set()
thread.join()
""")
        self.assertEqual(output, "refused True\n" * (3 * 8 + 5))

    def test_processes_of_multiprocessing(self):
        self.run_to_its_end("""
import multiprocessing
def work(node):
    with farpage.open(node) as own:
        into = bytearray(65536)
        sys.exit(0 if own.fetch(key(1), into, timeout_s=30).wait()["verdict"][0] == 1 and into == content(1) else 1)
client.put(key(1), content(1), timeout_s=30).wait()
process = multiprocessing.get_context("fork").Process(target=work, args=({node!r},))
process.start()
process.join()
assert process.exitcode == 0
""")


class InterpretersTest(unittest.TestCase):
    def test_a_subinterpreter_is_refused_with_a_sentence(self):
        result = run_script("""
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
text = '''import sys; sys.path[:0] = %r
try:
    import farpage
    farpage.open(embedded=True)
except ValueError as error:
    print(error, flush=True)
''' % sys.path[:4]
answer = interpreters.run_string(other, text)
assert answer is None, answer
""")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("main interpreter", result.stdout)


if __name__ == "__main__":
    unittest.main()
