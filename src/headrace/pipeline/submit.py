"""A pipeline under Spark's launcher: `spark-submit …/pipeline/submit.py pipeline.toml`.

Owns: nothing but the way there. The launcher's master and settings stand.
"""

import signal
import sys


def main(arguments: list[str]) -> int:
    from dataclasses import replace

    from headrace.base.errors import HeadraceError, UsageError
    from headrace.pipeline.job import Pipeline
    from headrace.pipeline.settings import make

    if len(arguments) != 1:
        print("usage: spark-submit … submit.py pipeline.toml", file=sys.stderr)
        return 2
    try:
        settings = replace(make(arguments[0], {}), master=None)
        job = Pipeline(settings, say=lambda text: print(text, file=sys.stderr, flush=True))
        signal.signal(signal.SIGTERM, lambda *_: job.stop())
        job.run()
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    # Python puts this file's folder first, whose names are ours alone.
    sys.path.pop(0)
    sys.exit(main(sys.argv[1:]))
