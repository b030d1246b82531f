"""The process in which one engine is measured: `python -m benchmarks.worker ENGINE ROWS_PER_BATCH ROWS_PER_FILE`.

It prints `ready`, then runs the request on each line of its input and replies with a line. It exits at the end of its
input.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from pathlib import Path

from benchmarks.engine_process import answering
from benchmarks.engines import EngineName, started


def main() -> None:
    name, rows_per_batch, rows_per_file = sys.argv[1:]
    answers = answering()
    with closing(started(EngineName(name), int(rows_per_batch), int(rows_per_file))) as engine:
        print("ready", file=answers)
        for line in sys.stdin:
            source, output, scratch = (Path(path) for path in json.loads(line))
            begun = time.perf_counter()
            checkpoints = engine.run(source, output, scratch)
            seconds = time.perf_counter() - begun
            print(json.dumps({"seconds": seconds, "checkpoints": checkpoints}), file=answers)


if __name__ == "__main__":
    main()
