"""A ticket whose end the test decides."""

import numpy
from client_case import READY, farpage


class FakeTicket:
    """`took_s`: of all pages, or of each. `reason`: of those that did not come. `error`: raised in
    place of a result."""

    def __init__(self, verdicts=(), codes=(), took_s=0.0, reason=farpage.Reason.MISS, error=None):
        self.error = error
        self.done = self.released = False
        self.results = 0  # that were asked for: each is a call of the library
        self.took_ns, self.reason = numpy.asarray(took_s) * 1e9, reason
        self.verdicts, self.codes = list(verdicts), list(codes)

    def end(self, released=True):
        self.done, self.released = True, released

    def result(self):
        self.results += 1
        if self.error is not None:
            raise self.error
        if self.codes:
            return numpy.array([(code, 1) for code in self.codes], farpage.ticket.PUT_RESULT)
        rows = numpy.zeros(len(self.verdicts), farpage.ticket.VERDICT)
        rows["verdict"] = self.verdicts
        rows["took_ns"] = self.took_ns
        rows["reason"] = [0 if verdict == READY else self.reason for verdict in self.verdicts]
        return rows

    def wait(self):
        self.done = True
        return self.result()

    def wait_released(self):
        self.end()
