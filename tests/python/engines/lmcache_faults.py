"""An adapter for LMCache's server in whose way a test puts something, by files in a folder."""

import os
import pathlib

import numpy

from farpage.engines.lmcache import FarpageAdapter


class FaultyAdapter(FarpageAdapter):
    """`faults` in its parameters is the folder. As long as it has a file `invert`, other bytes are
    stored than LMCache gave, which no check of the nodes can find. Of a file `signal`, "PROCESS
    NUMBER", the process is sent that signal between the next look-up and its load."""

    def __init__(self, params, l1_memory_desc=None):
        settings = dict(params)
        self._faults = pathlib.Path(settings.pop("faults"))
        super().__init__(settings, l1_memory_desc)

    def submit_store_task(self, keys, objects):
        if (self._faults / "invert").exists():
            for each in objects:
                pages = numpy.frombuffer(each.byte_array, numpy.uint8)
                numpy.invert(pages, out=pages)
        return super().submit_store_task(keys, objects)

    def submit_load_task(self, keys, objects):
        signal = self._faults / "signal"
        if signal.exists():
            os.kill(*map(int, signal.read_text().split()))
            signal.unlink()
        return super().submit_load_task(keys, objects)
