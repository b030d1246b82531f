"""The process in which one engine is measured: `python -m benchmarks.latency.worker ENGINE`.

It prints `ready`. Each line of its input is a job to start, `[work, [source, ...], place, checkpoint interval]`, or
`null` to stop the running job. It replies to each line with `true`, and exits at the end of its input.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.engine_process import answering
from benchmarks.latency.works import WorkName

if TYPE_CHECKING:
    from benchmarks.latency.flykka_side import FlykkaSide
    from benchmarks.latency.structured_streaming_side import StructuredStreamingSide


class Side(StrEnum):
    FLYKKA = "flykka"
    STRUCTURED_STREAMING = "structured_streaming"


def main(side: str) -> None:
    answers = answering()
    with closing(_started(Side(side))) as engine:
        print(json.dumps("ready"), file=answers)
        for line in sys.stdin:
            request = json.loads(line)
            if request is None:
                engine.stop()
            else:
                work, sources, place, interval = request
                engine.start(WorkName(work), [Path(source) for source in sources], Path(place), interval)
            print(json.dumps(True), file=answers)


def _started(side: Side) -> FlykkaSide | StructuredStreamingSide:
    if side is Side.FLYKKA:
        from benchmarks.latency.flykka_side import FlykkaSide

        return FlykkaSide()
    from benchmarks.latency.structured_streaming_side import StructuredStreamingSide

    return StructuredStreamingSide()


if __name__ == "__main__":
    main(*sys.argv[1:])
