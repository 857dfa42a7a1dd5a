"""What HolisticTraceAnalysis says about traces of torch.profiler: python3 tests/oracles/holistic.py TRACE…

Needs `pip install HolisticTraceAnalysis`. For each trace it prints a line of JSON, times in microseconds: how long its GPU was idle between the
first kernel and the last, computed, or only did other work, and the share of communication that overlaps with computing.
"""

import contextlib
import io
import json
import os
import sys

# Without this, start and duration of each kernel are cut to whole microseconds, and 7 % of a trace of short kernels vanishes.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

from hta.trace_analysis import TraceAnalysis


def breakdown(trace):
    with contextlib.redirect_stdout(io.StringIO()):
        # By default the last step is left out.
        analysis = TraceAnalysis(trace_files={0: trace}, trace_dir=".", include_last_profiler_step=True)
        times = analysis.get_temporal_breakdown(visualize=False).to_dict("records")[0]
        overlap = analysis.get_comm_comp_overlap(visualize=False).to_dict("records")[0]
    return {"trace": os.path.basename(trace)} | {key: float(value) for key, value in (times | overlap).items()
                                                   if key != "rank" and value == value}


for path in sys.argv[1:]:
    print(json.dumps(breakdown(path)))
