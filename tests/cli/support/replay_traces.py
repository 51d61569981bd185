"""Traces of requests, made for a test."""

import json


def write_trace(path, requests):
    with open(path, "w", encoding="utf-8") as file:
        for time_ms, ids in enumerate(requests):
            line = {"timestamp": time_ms, "input_length": 1, "output_length": 1, "hash_ids": ids}
            file.write(json.dumps(line) + "\n")
