"""Writes event files with TensorBoard's own writer, and the numbers it was given, without our code.

    pip install tensorboard==2.21.0
    python tests/oracles/tensorboard_events.py

writes tests/golden/tensorboard/events.out.tfevents.NAME and NAME.json, a list of [tag, step, time, value]: `simple` with values
as torch.utils.tensorboard writes them, `tensor` as TensorFlow 2 does.
"""
import json
import math
import struct
from pathlib import Path

import numpy
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.scalar import metadata
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util import tensor_util

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "tensorboard"
START_S = 1_700_000_000.5


def write(name, values):
    numbers = []
    with open(GOLDEN / f"events.out.tfevents.{name}", "wb") as file:
        writer = RecordWriter(file)
        writer.write(event_pb2.Event(wall_time=START_S, file_version="brain.Event:2").SerializeToString())
        for step, value, number in values:
            time_s = START_S + 0.25 * step
            event = event_pb2.Event(wall_time=time_s, step=step, summary=summary_pb2.Summary(value=[value]))
            writer.write(event.SerializeToString())
            if number is not None:
                numbers.append([value.tag, step, time_s, None if math.isnan(number) else number])
        writer.flush()
    (GOLDEN / f"{name}.json").write_text(json.dumps(numbers) + "\n")


def simple(tag, step, number):
    number = struct.unpack("f", struct.pack("f", number))[0]
    return step, summary_pb2.Summary.Value(tag=tag, simple_value=number), number


def tensor(tag, step, number, dtype):
    array = numpy.asarray(number, dtype=dtype)
    proto = tensor_util.make_tensor_proto(array)
    value = summary_pb2.Summary.Value(tag=tag, tensor=proto, metadata=metadata.create_summary_metadata("", ""))
    return step, value, float(array) if array.ndim == 0 else None


def content(tag, step, number, dtype, code):
    """A tensor whose number is in `tensor_content`, as TensorFlow's own kernels write it."""
    proto = tensor_util.make_tensor_proto(numpy.asarray(0, dtype=dtype))
    for field in ("float_val", "double_val", "int_val", "int64_val"):
        proto.ClearField(field)
    proto.tensor_content = struct.pack(code, number)
    return step, summary_pb2.Summary.Value(tag=tag, tensor=proto), float(struct.unpack(code, proto.tensor_content)[0])


def histogram(tag, step):
    histo = summary_pb2.HistogramProto(min=0, max=1, num=2, bucket_limit=[1.0], bucket=[2.0])
    return step, summary_pb2.Summary.Value(tag=tag, histo=histo), None


write("simple", [
    *(simple("train/loss", step, 2.0 / step) for step in range(1, 6)),
    histogram("weights", 5),
    simple("learning rate", 5, 1e-3),
    simple("train/loss", 6, float("nan")),
    simple("eval/accuracy", 300, 0.875),
])
write("tensor", [
    tensor("epoch_loss", 0, 0.5, numpy.float32),
    tensor("epoch_loss", 1, 0.1, numpy.float64),
    tensor("count", 1, -3, numpy.int32),
    tensor("count", 2, 1 << 40, numpy.int64),
    tensor("matrix", 2, [[1.0, 2.0]], numpy.float32),
    content("by_content", 3, 0.375, numpy.float32, "<f"),
    content("by_content", 4, 0.1, numpy.float64, "<d"),
    content("by_content", 5, -7, numpy.int64, "<q"),
])
